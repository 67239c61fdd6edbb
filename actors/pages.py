"""The page of the control block that each process has. Those of the handlers begin at PAGE_HANDLER, in the order of their
lanes."""

from orbitmq.native._core import lib

PAGE_SUPERVISOR: int = lib.ACTOR_SUPERVISOR
PAGE_REPUT: int = lib.ACTOR_REPUT
PAGE_WRITER: int = lib.ACTOR_WRITER
PAGE_FLUSH: int = lib.ACTOR_FLUSH
PAGE_NOTIFIER: int = lib.ACTOR_NOTIFIER
PAGE_COORDINATOR: int = lib.ACTOR_COORDINATOR
PAGE_ALLOCATOR: int = lib.ACTOR_ALLOCATOR
PAGE_SCHEDULER: int = lib.ACTOR_SCHEDULER
PAGE_DISPATCHER: int = lib.ACTOR_DISPATCHER
PAGE_GATEWAY: int = lib.ACTOR_GATEWAY
PAGE_HANDLER: int = lib.ACTOR_HANDLER
