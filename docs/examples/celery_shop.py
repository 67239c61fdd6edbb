"""A Celery application whose tasks OrbitMQ keeps; docs/celery.md explains it.

orbitmq up --store ./data --detach
celery --app celery_shop worker
"""

import os

from celery import Celery

import orbitmq.contrib.kombu  # makes orbitmq:// a URL that Celery knows

app = Celery("celery_shop", broker=os.environ.get("SHOP_BROKER", "orbitmq://"), backend="rpc://")
app.conf.update(
    task_acks_late=True,  # a task counts as done when it is done, and not when it begins
    task_reject_on_worker_lost=True,  # also if only a process of the pool dies
    worker_prefetch_multiplier=1,  # a worker has no more tasks in hand than it works on
    broker_connection_retry_on_startup=True,  # a worker may start before its broker
)


@app.task(autoretry_for=(OSError,), retry_backoff=True)
def charge(order: int) -> str:
    return f"order {order} is paid"


__all__ = ["app", "charge", "orbitmq"]
