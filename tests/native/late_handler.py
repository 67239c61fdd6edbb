"""A program for test_late_handler.py, which runs it from the build with crash points: a handler comes late to a slot.

    late_handler.py <folder> <"goes on" | "dies">

The handler is a fork, stopped between publishing a session's frames and noting how far they are taken. Meanwhile the session is
freed, and its slot belongs to the next session, with frames of its own. Then the handler continues; or it dies when it has made
its note, and has a successor. Prints the bodies that were stored, and how many verdicts the second session has.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from orbitmq.native._core import lib
from tests.crash.crash_plan import CrashPlan
from tests.native import pipeline as p

FREE = 0


def main(folder: Path, fate: str) -> None:
    plan = CrashPlan(Path(os.environ["ORBITMQ_CRASH_PLAN"]))
    go, told = os.pipe()
    with p.pipeline(folder) as tree:
        first = tree.session(epoch=1)
        first.send(*(p.message(b"first %d" % n) for n in range(3)))
        plan.arm("handler_intake_settling", pause=True)
        late = os.fork()
        if late == 0:
            handler = tree.handler()
            lib.handler_step(handler)
            os.read(go, 1)
            while lib.handler_step(handler):
                pass
            os._exit(0)
        _, status = os.waitpid(late, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it did not come to where it is to be stopped"
        writer = tree.writer()
        while lib.writer_step(writer):
            pass
        assert first.completed == 3, "its frames are in the lane"
        lib.session_set_state(tree.control, 0, FREE)
        second = tree.session(epoch=2)
        second.send(*(p.message(b"second %d" % n) for n in range(5)))
        if fate == "dies":
            plan.arm("handler_intake_taken")
        os.kill(late, signal.SIGCONT)
        os.write(told, b"x")
        os.waitpid(late, 0)
        p.run(tree.handler(), writer)
        print([bytes(record.body).decode() for record in tree.records()], second.completed)


main(Path(sys.argv[1]), sys.argv[2])
