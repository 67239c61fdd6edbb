"""Goal: a trace goes on across the broker: from the span that sends to the span that works on the message. Method: a program
with OpenTelemetry's SDK that keeps its spans, over a consumer and a worker, a message that is sent on, one that fails and comes
again (client/tracing.py)."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import orbitmq
from orbitmq.client.broker.broker import Broker
from orbitmq.tracing import link_of, processing, sending
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S

PARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]")  # sampled; some versions also say that the id is random


class Spans:
    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = provider.get_tracer("test")

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def of(self, name: str) -> ReadableSpan:
        (found,) = (span for span in self.ended if span.name == name)
        return found


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with small_broker(tmp_path) as running:
        running.create_topic("orders", 1)
        running.create_topic("bills", 1)
        yield running


def follows(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None and child.context is not None
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


def test_from_a_send_to_the_work_and_on(broker: Broker, spans: Spans) -> None:
    tracer = spans.tracer
    with broker.producer() as producer, broker.consumer("billing", ["orders"], start="earliest") as consumer:
        with tracer.start_as_current_span("request"), sending("orders", {"region": "eu"}, tracer=tracer) as properties:
            assert properties["region"] == "eu" and PARENT.fullmatch(properties["traceparent"])
            producer.send("orders", b"cake", properties=properties)
        message = consumer.poll(WATCHDOG_S)
        assert message is not None
        given = message.user_properties
        with processing(message, group="billing", tracer=tracer), sending("bills", given, tracer=tracer) as more:
            assert more["region"] == "eu" and more["traceparent"] != given["traceparent"]
            producer.send("bills", b"9", properties=more)
    request, sent, worked, passed = (spans.of(name) for name in ("request", "send orders", "process orders", "send bills"))
    assert follows(sent, request) and follows(worked, sent) and follows(passed, worked)
    assert (sent.kind, worked.kind, passed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.PRODUCER)
    told = dict(worked.attributes or {})
    assert told["messaging.system"] == "orbitmq" and told["messaging.destination.name"] == "orders"
    assert told["messaging.consumer.group.name"] == "billing" and told["messaging.message.body.size"] == 4
    assert told["messaging.message.id"] == message.id and told["messaging.orbitmq.message.offset"] == 0


def test_a_worker_that_fails_once(broker: Broker, spans: Spans) -> None:
    """Goal: both attempts are children of the send, under the topic that the sender knows, and the first says what failed."""
    tries: list[str] = []
    with broker.producer() as producer, sending("orders", tracer=spans.tracer) as properties:
        producer.send("orders", b"cake", properties=properties)

    def work(job: orbitmq.Job) -> None:
        tries.append(job.topic)
        try:
            with processing(job, tracer=spans.tracer):
                if len(tries) == 1:
                    raise ValueError("no oven")
        except ValueError:
            job.nack(delay=0)

    with broker.worker("bakers", ["orders"]) as worker:
        assert worker.run(work, jobs=2) == 2
    first, second = (span for span in spans.ended if span.name == "process orders")
    sent = spans.of("send orders")
    assert follows(first, sent) and follows(second, sent) and tries == ["orders", "orders"]
    assert first.status.status_code is StatusCode.ERROR and second.status.status_code is StatusCode.UNSET
    assert "no oven" in str((first.events[0].attributes or {})["exception.message"])


def test_links_of_a_batch(broker: Broker, spans: Spans) -> None:
    with broker.producer() as producer:
        for _ in range(3):
            with sending("orders", tracer=spans.tracer) as properties:
                producer.send("orders", b"x", properties=properties)
        producer.send("orders", b"without")
        producer.send("orders", b"broken", properties={"traceparent": "00-zz-1-01"})
    with broker.consumer(None, topics=["orders"], start="earliest") as consumer:
        found = consumer.poll_batch(5, WATCHDOG_S)
        while len(found) < 5:
            found = [*found, *consumer.poll_batch(5, WATCHDOG_S)]
        links = [link_of(each) for each in found]
        with processing(found[4], tracer=spans.tracer):
            pass
    assert [link is None for link in links] == [False, False, False, True, True]
    sent = [span.context for span in spans.ended if span.name == "send orders"]
    assert [link.context.span_id for link in links if link] == [each.span_id for each in sent if each]
    assert spans.of("process orders").parent is None


def test_baggage_and_stale_fields(spans: Spans) -> None:
    """Goal: what the program's propagators write travels; what they have no value for now is not kept from another message."""
    stale = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "tracestate": "old=1", "baggage": "who=other"}
    with sending("orders", stale, tracer=spans.tracer) as properties:
        assert set(properties) == {"traceparent"} and properties["traceparent"] != stale["traceparent"]
    token = context.attach(baggage.set_baggage("who", "me"))
    try:
        with sending("orders", tracer=spans.tracer) as properties:
            assert properties["baggage"] == "who=me"
    finally:
        context.detach(token)


def test_without_a_tracer(broker: Broker) -> None:
    """Goal: a library may use it whose program has set up nothing: no span, and no property of ours."""
    with broker.producer() as producer, sending("orders") as properties:
        assert properties == {}
        producer.send("orders", b"x", properties=properties)
    with broker.consumer(None, topics=["orders"], start="earliest") as consumer:
        message = consumer.poll(WATCHDOG_S)
        assert message is not None
        with processing(message) as span:
            assert not span.is_recording() and not trace.get_current_span().get_span_context().is_valid


def test_tasks_do_not_mix(spans: Spans) -> None:
    async def one(name: str, met: asyncio.Barrier) -> None:
        with sending(name, tracer=spans.tracer) as properties:
            await met.wait()
            current = trace.get_current_span().get_span_context()
            assert f"{current.span_id:016x}" == properties["traceparent"].split("-")[2]

    async def several() -> None:
        met = asyncio.Barrier(3)
        await asyncio.gather(*(one(f"t{number}", met) for number in range(3)))

    asyncio.run(several())
    assert {span.name for span in spans.ended} == {"send t0", "send t1", "send t2"}


def test_without_the_library() -> None:
    hidden = "import sys; sys.modules['opentelemetry'] = None; import orbitmq.tracing"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'orbitmq[otel]'" in done.stderr.splitlines()[-1]
