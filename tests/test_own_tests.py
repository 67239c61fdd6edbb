"""Goal: the tests of a module can be found by its name. Method: every module that decides something has a test file of its
name, or is in the table below with the file that tests it. An entry that is no longer true is a failure, too: the file imports
the module; or, if the module runs in other processes there, the file's docstring names its path."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.syntax import nodes, of_all_sources, parsed

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("shm", "store", "actors", "client", "tables", "spark", "cli", "contrib", "remoting")
DECISIONS_MIN = 5  # fewer are glue
DECISIONS = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.BoolOp, ast.comprehension, ast.match_case)

# Modules that are tested in a file of another name, which describes the tests better than the module's own name would.
TESTED_BY: dict[str, str] = {
    "actors/actor.py": "tests/actors/test_supervisor.py",
    "actors/coordinator/administration.py": "tests/actors/test_group_changes.py",
    "actors/burial.py": "tests/actors/test_topic_deletion.py",
    "actors/supervisor/children.py": "tests/actors/test_supervisor.py",
    "actors/supervisor/child_output.py": "tests/actors/test_last_words.py",
    "actors/post.py": "tests/actors/test_last_words.py",
    "actors/coordinator/coordinator.py": "tests/actors/test_door.py",
    "actors/dispatcher.py": "tests/actors/test_work_model.py",
    "actors/work/describe.py": "tests/client/test_work_status.py",
    "actors/work/filters.py": "tests/client/test_work_filter.py",
    "actors/work/registry.py": "tests/actors/test_work_model.py",
    "cli/last_words.py": "tests/cli/test_work.py",
    "client/connection/opened_session.py": "tests/client/test_unmapped.py",
    "client/work/settings.py": "tests/client/test_work_filter.py",
    "client/work/tasks.py": "tests/client/test_work_run.py",
    "shm/sql_text.py": "tests/native/test_sql.py",
    "client/request/call.py": "tests/client/test_requests.py",
    "client/request/calls.py": "tests/client/test_requests.py",
    "client/request/request_form.py": "tests/client/test_requests.py",
    "client/request/reply_reader.py": "tests/client/test_request_model.py",
    "client/transaction/committed.py": "tests/client/test_named_producer.py",
    "client/delay/cancel_target.py": "tests/client/test_cancel.py",
    "client/delay/administration.py": "tests/client/test_cancel.py",
    "client/transaction/administration.py": "tests/client/test_transaction_checker.py",
    "client/transaction/open_transactions.py": "tests/client/test_transaction.py",
    "client/admin/exact_groups.py": "tests/client/test_group_offsets.py",
    "client/transaction/due_checks.py": "tests/client/test_transaction_checker.py",
    "client/aio/loop_check.py": "tests/client/test_transaction_checker.py",
    "client/delay/delayed.py": "tests/client/test_delayed_list.py",
    "client/work/answers.py": "tests/actors/test_work_model.py",
    "actors/flush.py": "tests/actors/test_queue_sync.py",
    "actors/kept_note.py": "tests/actors/test_halves.py",
    "actors/groups/group_configs.py": "tests/actors/test_group_changes.py",
    "actors/groups/group_registry.py": "tests/actors/test_offsets.py",
    "actors/coordinator/peer.py": "tests/actors/test_strangers.py",
    "actors/topics/purges.py": "tests/actors/test_topic_changes.py",
    "actors/supervisor/recovery.py": "tests/cli/test_starter.py",
    "actors/gateway/certificate.py": "tests/actors/test_gateway_tls.py",
    "actors/gateway/guard.py": "tests/actors/test_gateway_acl.py",
    "actors/gateway/paused_groups.py": "tests/actors/test_gateway_pause.py",
    "actors/gateway/popping.py": "tests/actors/test_gateway_pop_sessions.py",
    "actors/gateway/tls_door.py": "tests/actors/test_gateway_tls.py",
    "actors/listener.py": "tests/actors/test_gateway.py",
    "actors/gateway/remote_loop.py": "tests/actors/test_gateway.py",
    "actors/tree.py": "tests/actors/test_gateway_fronts.py",
    "actors/reput.py": "tests/actors/test_topic_deletion.py",
    "actors/supervisor/segments.py": "tests/actors/test_supervisor.py",
    "actors/stages.py": "tests/native/test_stages.py",
    "actors/topics/topic_registry.py": "tests/actors/test_durable_topics.py",
    "actors/topics/topic_settings.py": "tests/actors/test_topic_order.py",
    "actors/writer.py": "tests/power/life.py",
    "cli/clients.py": "tests/cli/test_groups.py",
    "cli/delay.py": "tests/client/test_delayed_list.py",
    "cli/doctor/clock.py": "tests/cli/test_doctor.py",
    "cli/doctor/command.py": "tests/cli/test_doctor.py",
    "cli/doctor/extras.py": "tests/cli/test_doctor.py",
    "cli/doctor/ports.py": "tests/cli/test_doctor.py",
    "cli/doctor/runtime.py": "tests/cli/test_doctor.py",
    "cli/doctor/store.py": "tests/cli/test_doctor.py",
    "cli/broker_looks.py": "tests/cli/test_metric_server.py",
    "cli/export.py": "tests/spark/test_export.py",
    "cli/group.py": "tests/cli/test_groups.py",
    "cli/metric_text.py": "tests/client/test_metrics.py",
    "cli/quickstart/__main__.py": "tests/cli/test_quickstart.py",
    "cli/quickstart/flights.py": "tests/cli/test_quickstart.py",
    "cli/quickstart/jars.py": "tests/interop/test_remote_quickstart.py",
    "cli/quickstart/java_program.py": "tests/interop/test_remote_quickstart.py",
    "cli/quickstart/remote.py": "tests/interop/test_remote_quickstart.py",
    "cli/quickstart/spark_part.py": "tests/cli/test_quickstart.py",
    "cli/quickstart/summary.py": "tests/cli/test_quickstart.py",
    "cli/quickstart/workers.py": "tests/cli/test_quickstart.py",
    "cli/health.py": "tests/cli/test_metrics.py",
    "cli/main.py": "tests/cli/test_spelling.py",
    "cli/reading.py": "tests/cli/test_commands.py",
    "cli/sending.py": "tests/cli/test_commands.py",
    "cli/topic.py": "tests/cli/test_commands.py",
    "cli/tree.py": "tests/cli/test_starter.py",
    "cli/web/application.py": "tests/cli/test_web_console.py",
    "cli/web/command.py": "tests/cli/test_web_console.py",
    "cli/web/link.py": "tests/cli/test_web_console.py",
    "cli/web/message_json.py": "tests/cli/test_web_console.py",
    "cli/web/query.py": "tests/cli/test_web_console.py",
    "cli/top/columns.py": "tests/cli/test_top_model.py",
    "cli/top/command.py": "tests/cli/test_top_app.py",
    "cli/top/head.py": "tests/cli/test_top_model.py",
    "cli/top/listing.py": "tests/cli/test_top_app.py",
    "cli/top/messages.py": "tests/cli/test_top_app.py",
    "cli/top/series.py": "tests/cli/test_top_model.py",
    "cli/top/source.py": "tests/cli/test_top_app.py",
    "client/connection/absence.py": "tests/client/test_wait.py",
    "client/admin/administration.py": "tests/actors/test_group_changes.py",
    "client/aio/aside.py": "tests/client/test_aio_cancel.py",
    "client/connection/attachment.py": "tests/client/test_connection.py",
    "client/broker/broker.py": "tests/client/test_left_open.py",
    "client/client.py": "tests/client/test_connection.py",
    "client/consumer/session.py": "tests/client/test_consumer_life.py",
    "client/dead_letter/dead_letter.py": "tests/client/test_dead_letters.py",
    "client/admin/group_reset.py": "tests/actors/test_group_changes.py",
    "client/work/job.py": "tests/client/test_worker.py",
    "client/broker/launch.py": "tests/cli/test_starter.py",
    "client/consumer/positions.py": "tests/client/test_consumer.py",
    "client/receipt.py": "tests/client/test_atomic_batch.py",
    "client/admin/status.py": "tests/client/test_health.py",
    "client/admin/topic_administration.py": "tests/actors/test_topic_changes.py",
    "client/work/stop_signals.py": "tests/client/test_work_run.py",
    "client/connection/whereabouts.py": "tests/client/test_by_store.py",
    "client/work/heartbeat.py": "tests/client/test_open_jobs.py",
    "client/work/loop.py": "tests/client/test_worker.py",
    "client/work/process.py": "tests/client/test_work_run.py",
    "client/work/supply.py": "tests/client/test_open_jobs.py",
    "client/work/retries.py": "tests/client/test_work_status.py",
    "client/work/worker_settings.py": "tests/client/test_worker.py",
    "contrib/kombu/channel.py": "tests/contrib/test_kombu.py",
    "contrib/kombu/envelope.py": "tests/contrib/test_kombu_parts.py",
    "contrib/kombu/hands.py": "tests/contrib/test_kombu_parts.py",
    "contrib/kombu/link.py": "tests/contrib/test_kombu.py",
    "contrib/kombu/log_source.py": "tests/contrib/test_kombu.py",
    "contrib/kombu/names.py": "tests/contrib/test_kombu_parts.py",
    "contrib/kombu/source.py": "tests/contrib/test_kombu.py",
    "contrib/kombu/transport.py": "tests/contrib/test_kombu.py",
    "contrib/kombu/work_source.py": "tests/contrib/test_kombu.py",
    "remoting/acl_file.py": "tests/actors/test_gateway_accounts.py",
    "remoting/address_pattern.py": "tests/actors/test_address_pattern.py",
    "remoting/admin/accounts.py": "tests/actors/test_gateway_accounts.py",
    "remoting/admin/broker_changes.py": "tests/actors/test_gateway_operators.py",
    "remoting/admin/brokers.py": "tests/actors/test_gateway_admin.py",
    "remoting/admin/connections.py": "tests/actors/test_gateway_connections.py",
    "remoting/admin/groups.py": "tests/actors/test_gateway_admin.py",
    "remoting/admin/log_view.py": "tests/actors/test_gateway_look_ups.py",
    "remoting/admin/messages.py": "tests/actors/test_gateway_look_ups.py",
    "remoting/admin/name_server_values.py": "tests/actors/test_gateway_operators.py",
    "remoting/admin/properties_text.py": "tests/actors/test_gateway_operators.py",
    "remoting/admin/questions.py": "tests/actors/test_gateway_questions.py",
    "remoting/admin/queue_units.py": "tests/actors/test_gateway_operators.py",
    "remoting/admin/remote_record.py": "tests/actors/test_gateway_look_ups.py",
    "remoting/admin/topics.py": "tests/actors/test_gateway_admin.py",
    "remoting/assignments.py": "tests/actors/test_gateway_assignments.py",
    "remoting/check_backs.py": "tests/actors/test_gateway_check_backs.py",
    "remoting/consumers.py": "tests/actors/test_gateway_members.py",
    "remoting/filter_text.py": "tests/actors/test_gateway_filters.py",
    "remoting/half_message.py": "tests/actors/test_gateway_check_backs.py",
    "remoting/heartbeat.py": "tests/actors/test_gateway_members.py",
    "remoting/locks.py": "tests/actors/test_gateway_members.py",
    "remoting/members.py": "tests/actors/test_gateway_members.py",
    "remoting/name_server.py": "tests/actors/test_gateway.py",
    "remoting/offsets.py": "tests/actors/test_gateway_members.py",
    "remoting/outgoing.py": "tests/actors/test_gateway_registration.py",
    "remoting/plain_acl.py": "tests/actors/test_plain_acl.py",
    "remoting/pops.py": "tests/actors/test_gateway_pop_notices.py",
    "remoting/producers.py": "tests/actors/test_gateway_check_backs.py",
    "remoting/registration.py": "tests/actors/test_gateway_registration.py",
    "remoting/sends.py": "tests/actors/test_gateway_new_topics.py",
    "spark/data_source.py": "tests/spark/test_source.py",
    "tables/export/account.py": "tests/tables/test_export_runs.py",
    "tables/export/checkpoint.py": "tests/tables/test_export_run_log.py",
    "tables/export/folder.py": "tests/tables/test_export_runs.py",
    "tables/export/parquet_file.py": "tests/tables/test_export_compact.py",
    "tables/export/partition.py": "tests/tables/test_export_runs.py",
    "tables/export/plan.py": "tests/tables/test_export_runs.py",
    "tables/export/swap.py": "tests/tables/test_export_compact.py",
    "tables/export/state.py": "tests/tables/test_export_manifest.py",
    "tables/export/task.py": "tests/tables/test_export_runs.py",
    "tables/export/progress.py": "tests/tables/test_export_here.py",
    "tables/export/topics.py": "tests/tables/test_export_runs.py",
    "spark/session.py": "tests/spark/conftest.py",
    "spark/sink/options.py": "tests/spark/test_sink_columns.py",
    "spark/sink/staging.py": "tests/spark/test_sink_commit.py",
    "spark/sink/state.py": "tests/spark/test_sink_commit.py",
    "spark/sink/remote_batches.py": "tests/spark/test_remote_target.py",
    "spark/sink/writer.py": "tests/spark/test_sink.py",
    "spark/refusal.py": "tests/spark/test_options.py",
    "spark/servers/cluster.py": "tests/spark/test_servers.py",
    "spark/servers/route.py": "tests/spark/test_several_brokers.py",
    "spark/servers/connection.py": "tests/spark/test_servers.py",
    "spark/servers/pulled_store.py": "tests/spark/test_servers.py",
    "spark/source/batch_reader.py": "tests/spark/test_source.py",
    "spark/source/remote_extents.py": "tests/spark/test_servers.py",
    "spark/source/remote_slices.py": "tests/spark/test_servers.py",
    "tables/carried.py": "tests/spark/test_carried.py",
    "tables/choice.py": "tests/spark/test_topic_options.py",
    "tables/moments.py": "tests/spark/test_moments.py",
    "tables/planning.py": "tests/spark/test_planning.py",
    "spark/schema.py": "tests/spark/test_source.py",
    "store/settings/listen_address.py": "tests/actors/test_gateway.py",
    "store/settings/listen_place.py": "tests/actors/test_gateway_places.py",
    "store/atomic_file.py": "tests/store/test_access.py",
    "store/commit_words.py": "tests/store/test_group_memory.py",
    "store/commits.py": "tests/client/test_commits.py",
    "store/delays.py": "tests/actors/test_scheduler.py",
    "store/file_system.py": "tests/store/test_layout.py",
    "store/index_headers.py": "tests/store/test_index_file.py",
    "store/purged.py": "tests/actors/test_topic_changes.py",
    "store/queue_rewrite.py": "tests/actors/test_queue_sync.py",
    "store/recovery/fallbacks.py": "tests/actors/test_damaged_files.py",
    "store/recovery/lone_commit.py": "tests/store/test_halves.py",
    "store/recovery/log_cut.py": "tests/store/test_recover.py",
    "store/recovery/log_rewrite.py": "tests/store/test_recover.py",
    "store/recovery/report.py": "tests/store/test_recover.py",
    "store/repair/log.py": "tests/store/test_remake.py",
    "store/repair/reindex.py": "tests/store/test_repair_emptied_queue.py",
    "store/reput_commit.py": "tests/store/test_recovery_index.py",
    "store/settings/setting_change.py": "tests/store/test_settings_file.py",
    "store/settings/setting_sources.py": "tests/store/test_settings_file.py",
    "store/settings/settings.py": "tests/store/test_layout.py",
    "store/settings/tree_settings.py": "tests/actors/test_supervisor.py",
    "store/trim.py": "tests/actors/test_retention.py",
    "store/unsynced.py": "tests/store/test_recovery_table.py",
    "store/waiting.py": "tests/actors/test_waiting_kept.py",
    "store/work/plan.py": "tests/store/test_work_files.py",
    "store/verify/file_checks.py": "tests/store/test_group_memory.py",
}


def decisions(text: str) -> int:
    """Branches and loops of a module."""
    return sum(isinstance(node, DECISIONS) for node in nodes(text))


def own_tests(module: Path) -> list[Path]:
    """Where its tests are looked for: client/connection/bell.py, then store/repair/log.py."""
    folder = Path("tests", module.parts[0])
    names = [f"test_{module.stem}.py"]
    if len(module.parts) > 2:
        names.insert(0, f"test_{module.parent.name}_{module.stem}.py")
    return [folder / name for name in names]


def imported(test: str) -> set[str]:
    """What a test imports, with the modules that it is of."""
    found: set[str] = set()
    for node in nodes(test):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def speaks_of(test: str, module: Path) -> bool:
    """True if a test imports the module, or its docstring names the module's path."""
    named = re.search(rf"(?<![\w/]){re.escape(str(module))}\b", ast.get_docstring(parsed(test)) or "")
    return named is not None or ".".join(["orbitmq", *module.with_suffix("").parts]) in imported(test)


@cache
def modules() -> dict[Path, str]:
    """Those that decide something, relative to the checkout."""
    found = (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py")))
    texts = {path.relative_to(ROOT): path.read_text() for path in found}
    return {path: text for path, text in texts.items() if decisions(text) >= DECISIONS_MIN}


def fault(module: Path) -> str | None:
    """What is wrong with the tests of a module. None: nothing."""
    listed = TESTED_BY.get(str(module))
    found = [path for path in own_tests(module) if (ROOT / path).exists()]
    # Two modules of one layer may have one name, in two folders.
    surely = len(module.parts) == 2 or own_tests(module)[0] in found
    speaking = found if surely else [path for path in found if speaks_of((ROOT / path).read_text(), module)]
    if listed is None:
        return None if speaking else f"{module}: write {own_tests(module)[0]}, or add the file that tests it to TESTED_BY"
    if speaking:
        return f"{module}: it has {speaking[0]}, take it out of TESTED_BY"
    if not (ROOT / listed).exists() or not speaks_of((ROOT / listed).read_text(), module):
        return f"{module}: {listed} neither imports it nor names it in its docstring"
    return None


@of_all_sources
def test_every_module_has_its_tests() -> None:
    assert len(modules()) > 100
    wrong = [found for module in modules() if (found := fault(module))]
    assert not wrong, "\n".join(wrong)


@of_all_sources
def test_the_table_has_no_other_modules() -> None:
    assert not TESTED_BY.keys() - {str(module) for module in modules()}, "gone, or too simple to be listed"


@pytest.mark.parametrize(
    ("test", "speaks"),
    [
        ("from orbitmq.client.connection.bell import Bell", True),
        ("from orbitmq.client.connection import bell", True),
        ("import orbitmq.client.connection.bell", True),
        ("from orbitmq.client.connection.bell import _Hidden", True),
        ('"""Goal: it rings. Of client/connection/bell.py."""', True),
        ('"""Goal: it rings."""\n# Of client/connection/bell.py.', False),
        ('"""Of remote/client/bell.py."""', False),
        ("it_rings = a.Bell()", False),
        ("from orbitmq.client.bells import Bells", False),
        ("from orbitmq.actors import bell", False),
        ("from tests.client import bell", False),
    ],
)
def test_what_counts_as_speaking_of_a_module(test: str, speaks: bool) -> None:
    assert speaks_of(test, Path("client/connection/bell.py")) is speaks


def test_decisions_are_counted() -> None:
    text = "def f(x):\n    if x and x > 1:\n        return [y for y in x]\n    return 1 if x else 2\n"
    assert decisions(text) == 4
