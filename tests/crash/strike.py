"""Makes a process pass a point: knows who has to do something for it, and how to bring that about."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.crash.load import LOOK_MS, Load
from tests.waiting import WATCHDOG_S, dead, until

# How long the load alone may take to pass a point before something is done about it.
ALONE_S = 0.4

# The actor whose start passes those points of a file that the load does not pass.
OWNER = {
    "allocator": "allocator",
    "burial": "reput",
    "consume_queue": "reput",
    "check_notes": "coordinator",
    "commit_files": "coordinator",
    "control": "writer",
    "coordinator": "coordinator",
    "dispatcher": "dispatcher",
    "dispatcher_answers": "dispatcher",
    "dispatcher_hand": "dispatcher",
    "dispatcher_order_look": "dispatcher",
    "dispatcher_kept": "dispatcher",
    "dispatcher_plan": "dispatcher",
    "dispatcher_put": "dispatcher",
    "work_files": "coordinator",
    "work_plan": "coordinator",
    "work_queue": "dispatcher",
    "work_registry": "coordinator",
    "expiry_clock": "flush",
    "flush": "flush",
    "gateway": "gateway",
    "gateway_back": "gateway",
    "gateway_batch": "gateway",
    "gateway_commit": "gateway 1",
    "gateway_connections": "gateway",
    "gateway_hold": "gateway",
    "gateway_line": "gateway 1",
    "gateway_pop": "gateway",
    "gateway_pop_notice": "gateway",
    "gateway_pop_settle": "gateway",
    "gateway_pull": "gateway",
    "gateway_receipt": "gateway",
    "gateway_relay": "gateway 1",
    "gateway_send": "gateway",
    "gateway_table": "gateway",
    "gateway_transaction": "gateway",
    "pop_link": "gateway",
    "pop_serve": "gateway",
    "group_configs": "coordinator",
    "group_registry": "coordinator",
    "handler": "handler 0",
    "handler_intake": "handler 0",
    "index_file": "reput",
    "index_log": "reput",
    "locked_queues": "coordinator",
    "notifier": "notifier",
    "purged": "coordinator",
    "purges": "coordinator",
    "reput": "reput",
    "reput_publish": "reput",
    "delay_record": "scheduler",
    "delays": "scheduler",
    "put_lane": "scheduler",
    "halves": "scheduler",
    "handler_settle": "handler 0",
    "writer_settle": "writer",
    "writer_commits": "writer",
    "group_commits": "writer",
    "scheduler": "scheduler",
    "sessions": "coordinator",
    "topic_registry": "coordinator",
    "small_write": "writer",
    "writer": "writer",
    "writer_dedup": "writer",
    "writer_deliver": "writer",
    "writer_log": "writer",
    "writer_takeover": "writer",
}
# The same for the load's processes.
CLIENT = {
    "cancel": "delay",
    "due_checks": "check",
    "transaction_checker": "check",
    "connection": "stir",
    "opened_session": "stir",
    "consumer_session": "share",
    "membership": "share",
    "sender": "produce",
    "group_offsets": "chain",
    "pull_hold": "share",
    "work_link": "toil",
    "work_session": "toil",
}
# Files most of whose points are passed while a tree starts or stops.
TREE = {
    "abort", "access", "atomic_file", "commits", "dispatcher_kept", "ground", "kept", "log_cut", "log_rewrite", "presence",
    "queue_sync", "recovery", "scheduler_load", "scheduler_missed", "segments", "settings_file", "supervisor", "unsynced",
}  # fmt: skip
# Of the points of these files, those that only a clean stop passes.
STOPPING = {
    "abort_removed", "access_recorded", "access_shut", "flush_recorded", "flush_stop_recorded", "ground_offsets_kept",
    "ground_segments_removed", "ground_unlinked", "presence_left", "presence_store_left", "presence_undescribed",
    "supervisor_stopped", "supervisor_stopped_one", "supervisor_stopping",
}  # fmt: skip
# Passed while a tree starts, though their files have others, too.
STARTING = {"group_commits_begun", "group_memory_removed", "halves_begun", "work_files_retries_made", "work_files_settled"}
# Passed only by an actor that starts: there is nothing to wait for.
SUCCEEDING = {
    "dispatcher_hand_forgotten", "expiry_clock_kept", "flush_clock_seen", "index_log_restored", "notifier_opened",
    "purges_buried", "sessions_restored", "writer_dedup_loading", "writer_dedup_marked", "writer_takeover_counting",
    "writer_takeover_delivered", "writer_takeover_published", "writer_takeover_scrubbed",
}  # fmt: skip
# How long the load may take where it passes the point only after a while, which each death would begin anew.
PATIENCE_S = {"burial_removed": 5.0, "gateway_pop_lapsed": 5.0}
# Passed when a process of the load is gone, or another has come in its place; some only if that one happens to reach a front,
# so another comes after so many seconds at most.
REPLACED_S = 5.0
REPLACED = {"gateway_commit_told": "remote", "gateway_relay_passing": "remote", "work_queue_released": "toil"}
# Passed when somebody has removed the files by which the broker is found.
CLEARED = {"coordinator_moved", "supervisor_posted"}
# What a predecessor has to leave half done; each of these dies first.
BEFORE = {
    "dispatcher_hand_undone": ("dispatcher_hand_put",),
    "dispatcher_kept_begun": ("dispatcher_put_published", "supervisor_reaped"),
    "dispatcher_kept_loaded": ("dispatcher_put_published", "supervisor_reaped"),
    "flush_rewritten": ("flush_began",),
    "index_file_entry_zeroed": ("index_file_slot_put",),
    "index_file_slot_reset": ("index_file_slot_put",),
    "log_cut_copied": ("writer_copied", "supervisor_reaped"),
    "log_rewrite_written": ("flush_began", "supervisor_reaped"),
    "log_cut_zeroed": ("writer_copied", "supervisor_reaped"),
    "supervisor_reaped": ("writer_committed",),
    "supervisor_restarted": ("writer_committed",),
    "group_commits_read": ("writer_commits_told",),
    "writer_commits_read": ("writer_commits_told",),
    "writer_settle_told_over": ("writer_settle_told",),
    "writer_takeover_scrubbing": ("writer_copied",),
}


def strike(load: Load, point: str, part: str, passage: int = 1) -> int:
    """Makes a process die at the point, and repairs everything. Returns which one died. Raises: Stuck: no process passed it."""
    began = time.monotonic()
    before = BEFORE.get(point, ())
    load.plan.arm(*before, point, passage=passage)
    provocations = _provocations(load, point, part)
    pause = _pause(point, part)
    provoke_at = time.monotonic() + pause
    provoked = False

    def struck() -> int:
        nonlocal pause, provoke_at, provoked
        victim = load.plan.victim(point)
        if not victim and provoked:
            # The pause begins when all processes live again; otherwise a restarted process would be killed at once, each time.
            provoked = not load.repaired()
            provoke_at = time.monotonic() + pause
        elif not victim and time.monotonic() >= provoke_at:
            if load.repaired():
                if before:  # what they have left was perhaps of no use: whom it was about was gone
                    load.plan.arm(*before, point, passage=passage)
                next(provocations)()
            provoked = True
            # Longer each time: on a busy machine no process gets far enough between two kills.
            pause = max(min(2 * pause, REPLACED_S if point in REPLACED else WATCHDOG_S), ALONE_S)
        return victim if victim and dead(victim) else 0

    victim = int(until(struck, f"somebody to die at {point}", look_ms=LOOK_MS))
    load.plan.disarm()
    load.repair()
    load.grow()
    print(f"{point}: process {victim}, {time.monotonic() - began:.2f} s", flush=True)
    return victim


def _pause(point: str, part: str) -> float:
    """Seconds for which the load is left alone at first."""
    at_once = part in TREE or point in STOPPING | STARTING | SUCCEEDING
    return 0.0 if at_once and point not in BEFORE else PATIENCE_S.get(point, ALONE_S)


def _provocations(load: Load, point: str, part: str) -> Iterator[Callable[[], object]]:
    if point in CLEARED:
        return itertools.repeat(load.clear_names)
    if point in STOPPING:
        return itertools.repeat(load.stop)
    if role := REPLACED.get(point) or CLIENT.get(part):
        return itertools.repeat(partial(load.kill_worker, role))
    of_tree = [load.kill_tree, load.stop]
    owner = None if point in STARTING else OWNER.get(part)
    return itertools.cycle(of_tree if owner is None else [partial(load.kill_actor, owner), *of_tree])
