"""OpenTelemetry's trace context in messages, with the extra `otel`: docs/tracing.md."""

from __future__ import annotations

from orbitmq.client.tracing import link_of, processing, sending

__all__ = ["link_of", "processing", "sending"]
