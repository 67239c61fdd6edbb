"""Goal: whichever process dies, at whatever step, nothing is lost, nothing is stored twice, and nobody waits for ever.

Method: every step that changes shared state has a crash point. Under a load that never rests a process dies of SIGKILL at each
of them. The supervisor repairs it, or the next start does; then messages must pass through the whole pipeline again. In the end
every message is accounted for: one verdict for each send, each acknowledged message once in the log and where its receipt says,
queue offsets dense, at least once at a group, and exactly once at a consumer that keeps results with their offsets.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import crash_build
from tests.crash.load import ROLES, Load
from tests.crash.retained import PARTS
from tests.crash.strike import strike

# Points by the files that they are in; each family shares one broker. test_retention_points.py passes those of retained.PARTS,
# test_repair_kills.py those of a repair, test_backup_kills.py those of a backup,
# and tests/spark/test_sink_commit.py those of Spark's sink.
FAMILIES = {
    "writer": {"control", "ring", "small_write", "writer", "writer_dedup", "writer_deliver", "writer_log", "writer_takeover"},
    "handler": {"handler", "handler_atomic", "handler_intake"},
    "reput": {"burial", "consume_queue", "index_file", "index_log", "reput", "reput_publish"},
    "disk": {"allocator", "expiry_clock", "flush", "mapped_file", "positions", "queue_sync", "unsynced"},
    "consumers": {"consumer_session", "membership", "notifier", "pull_hold"},
    "coordinator": {
        "commit_files",
        "config",
        "coordinator",
        "descriptor_store",
        "group_configs",
        "group_memory",
        "group_registry",
        "locked_queues",
        "purged",
        "purges",
        "sessions",
        "topic_registry",
    },
    "producers": {"connection", "opened_session", "sender"},
    "tree": {"access", "ground", "kept", "presence", "segments", "settings_file", "supervisor"},
    "scheduler": {"cancel", "delay_record", "delays", "put_lane", "scheduler", "scheduler_load", "scheduler_missed"},
    "transactions": {"check_notes", "due_checks", "halves", "handler_settle", "transaction_checker", "writer_settle"},
    "chain": {"group_commits", "group_offsets", "writer_commits"},
    "workers": {
        "dispatcher", "dispatcher_answers", "dispatcher_hand", "dispatcher_order_look", "dispatcher_plan", "work_files",
        "work_link", "work_plan", "work_queue", "work_registry", "work_session",
    },
    "gateway": {
        "gateway", "gateway_back", "gateway_batch", "gateway_connections", "gateway_hold", "gateway_pop", "gateway_pop_notice",
        "gateway_pop_settle", "gateway_pull", "gateway_receipt", "gateway_reply", "gateway_send", "gateway_transaction",
        "pop_link", "pop_serve",
    },
    "fronts": {"gateway_commit", "gateway_line", "gateway_relay", "gateway_table"},
    "failures": {"dispatcher_kept", "dispatcher_put"},
    "recovery": {"abort", "atomic_file", "commits", "log_cut", "log_rewrite", "recovery"},
}


# Parts of the process that handler, writer and reput share with placement = "together". It dies as one, and one successor takes
# over for all three of them.
HOSTED = ("writer", "handler", "reput")
# Passed by a handler that sleeps while the writer works.
ALONE = {"handler_stalled"}
# Roles for points that the usual load does not pass.
BESIDE = {"scheduler": ("delay",), "workers": ("toil", "toil", "fail"), "failures": ("fail", "fail"),
          "writer": ("delay", "transact"), "transactions": ("transact", "transact", "check", "check"), "handler": ("transact",),
          "chain": ("feed", "chain", "chain"), "gateway": ("remote", "remote"), "fronts": ("remote",) * 4}  # fmt: skip
# Processes for these clients.
GATEWAYS = {"fronts": 2}


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    crash_build.build()


@pytest.fixture
def load(tmp_path: Path, request: pytest.FixtureRequest, family: str) -> Iterator[Load]:
    roles, gateways = (*ROLES, *BESIDE.get(family, ())), GATEWAYS.get(family, 1)
    made = Load(tmp_path, seed=1, roles=roles, placement=request.param, more={"gateways": gateways})
    yield made
    made.close()


def test_every_point_has_its_family() -> None:
    """Goal: no point is forgotten. Method: the points that the sources name against the table above."""
    assert len(crash_build.points()) > 400
    assert set(crash_build.points().values()) == PARTS.union(
        crash_build.OF_REPAIR,
        crash_build.OF_BACKUP,
        crash_build.OF_SINK,
        crash_build.OF_EXPORT,
        crash_build.OF_REDRIVE,
        *FAMILIES.values(),
    )


@pytest.mark.timeout(1200)  # of a family with fifty points
@pytest.mark.parametrize(
    ("family", "load"),
    [*((family, "spread") for family in FAMILIES), *((family, "together") for family in HOSTED)],
    indirect=["load"],
)
def test_a_death_at_every_point(load: Load, family: str) -> None:
    for point, part in crash_build.points().items():
        if part in FAMILIES[family] and not (load.placement == "together" and point in ALONE):
            strike(load, point, part)
    account = load.finish()
    assert account.wrong == []
    assert account.stored >= account.acknowledged > 0


def test_a_usual_build_has_no_points() -> None:
    """Goal: nobody can be killed in this way in production. Method: the usual build says so, and its point does nothing."""
    from orbitmq.native._core import lib

    assert not lib.crash_points_built()
    before = signal.getsignal(signal.SIGKILL)
    lib.crash_point_pass(b"writer_committed")
    assert before == signal.getsignal(signal.SIGKILL)
