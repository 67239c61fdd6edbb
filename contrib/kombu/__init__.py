"""OrbitMQ as a broker of Celery, and of whatever else uses kombu: importing this makes `orbitmq://` a URL that kombu knows.

    import orbitmq.contrib.kombu
    app = Celery("shop", broker="orbitmq:///srv/orbitmq/store")

docs/celery.md is the manual.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

from orbitmq.contrib.kombu.transport import Transport

__all__ = ["Transport"]

TRANSPORT_ALIASES["orbitmq"] = f"{Transport.__module__}:{Transport.__name__}"
