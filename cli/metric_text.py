"""Metrics in Prometheus' text format, which prometheus-client of the extra `metrics` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from orbitmq.client.admin.metrics import Metric


class MetricCollector(Collector):
    """What a look finds. Each collection looks anew."""

    def __init__(self, look: Callable[[], Iterable[Metric]]) -> None:
        self._look = look

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        for metric in self._look():
            if metric.kind == "histogram":
                ends = [(dict(sample.labels)["le"], sample.value) for sample in metric.samples]
                yield HistogramMetricFamily(metric.name, metric.help, buckets=ends, sum_value=metric.total)
                continue
            labels = [name for name, _ in metric.samples[0].labels] if metric.samples else []
            family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(
                metric.name, metric.help, labels=labels
            )
            for sample in metric.samples:
                family.add_metric([value for _, value in sample.labels], sample.value)
            yield family


def registry_of(look: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """A registry with nothing else in it."""
    registry = CollectorRegistry(auto_describe=False)  # its description would be a look at a broker that may not run yet
    registry.register(MetricCollector(look))
    return registry


def text_of(metrics: Iterable[Metric]) -> bytes:
    return generate_latest(registry_of(lambda: metrics))
