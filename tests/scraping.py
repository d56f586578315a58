"""A scrape, by name and labels, and what the tests of metrics do to have something to scrape."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from queue_core import Queue
from queue_core.prometheus import QueueCollector


class Scrape:
    """One scrape, as text and by name and labels."""

    def __init__(self, collector: QueueCollector) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        self.text = generate_latest(registry).decode()
        self.families = {family.name: family for family in parse(self.text)}
        samples = [sample for family in self.families.values() for sample in family.samples]
        self.values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(self.values) == len(samples), "a series is there twice"

    def __call__(self, name: str, **labels: str) -> float:
        return self.values[f"queue_core_{name}", frozenset(labels.items())]

    def has(self, name: str, **labels: str) -> bool:
        return (f"queue_core_{name}", frozenset(labels.items())) in self.values

    @property
    def tags(self) -> set[str]:
        return {dict(labels)["tag"] for _, labels in self.values if "tag" in dict(labels)}


def lease(queue: Queue, **how: Any) -> str:
    leased = queue.lease(**how)
    assert leased is not None
    return leased.token
