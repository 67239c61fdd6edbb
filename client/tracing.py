"""OpenTelemetry's trace context in messages' properties, and spans by the tracer of the program (docs/tracing.md).

The extra `otel` is OpenTelemetry's API alone. A program that sets up no tracer gets no spans, and passes on the context that it
has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from orbitmq.client.message import Message
from orbitmq.client.work.job import Job

try:
    from opentelemetry import propagate, trace
except ImportError as error:  # an extra: everything else works without it
    raise ImportError(f"{error}; tracing needs OpenTelemetry: pip install 'orbitmq[otel]'", name=error.name) from error

SYSTEM = "orbitmq"


@contextmanager
def sending(
    topic: str, properties: Mapping[str, str] | None = None, *, tracer: trace.Tracer | None = None
) -> Iterator[dict[str, str]]:
    """A span around a send. Gives the properties to send with: those given, and the context of this span (`traceparent`), which
    takes the place of one that they bring from another message.

    tracer: None: that of the program's tracer provider. What is raised within is recorded in the span.
    """
    attributes: dict[str, str | int] = {**_about("send"), "messaging.destination.name": topic}
    with _tracer(tracer).start_as_current_span(f"send {topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes):
        fields = propagate.get_global_textmap().fields
        carrier = {name: value for name, value in (properties or {}).items() if name not in fields}
        propagate.inject(carrier)
        yield carrier


@contextmanager
def processing(
    message: Message | Job, *, group: str | None = None, tracer: trace.Tracer | None = None
) -> Iterator[trace.Span]:
    """A span around the work on one message, whose parent is the span that sent it.

    tracer: None: that of the program's tracer provider. What is raised within is recorded in the span.
    """
    topic, seen = (message.topic, message.message) if isinstance(message, Job) else (message.topic, message)
    attributes: dict[str, str | int] = {
        **_about("process"),
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(seen.queue),
        "messaging.message.id": seen.id,
        "messaging.message.body.size": len(seen),
        "messaging.orbitmq.message.offset": seen.offset,
    }
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    context = propagate.extract(seen.user_properties)
    kind = trace.SpanKind.CONSUMER
    with _tracer(tracer).start_as_current_span(f"process {topic}", context, kind=kind, attributes=attributes) as span:
        yield span


def link_of(message: Message | Job) -> trace.Link | None:
    """For a span around several messages: a link to the span that sent this one. None: it was sent without a context."""
    seen = message.message if isinstance(message, Job) else message
    context = trace.get_current_span(propagate.extract(seen.user_properties)).get_span_context()
    return trace.Link(context) if context.is_valid else None


def _tracer(given: trace.Tracer | None) -> trace.Tracer:
    return given if given is not None else trace.get_tracer(SYSTEM)


def _about(operation: str) -> dict[str, str]:
    return {"messaging.system": SYSTEM, "messaging.operation.type": operation, "messaging.operation.name": operation}
