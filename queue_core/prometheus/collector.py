"""The collector: what a registry of prometheus_client asks at each scrape."""

import logging
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from queue_core.errors import InvalidArgument, QueueError, StoreGone
from queue_core.prometheus import families
from queue_core.prometheus.families import PREFIX, TAG_PREFIX, Family, Reading
from queue_core.prometheus.survey import rest, survey
from queue_core.prometheus.tags import OTHER, chosen, label
from queue_core.queue import Queue

log = logging.getLogger("queue_core.prometheus")

Parts = list[tuple[tuple[str, ...], Any]]  # (values of the labels, what it is about)


class QueueCollector(Collector):
    """Exports a queue: ``prometheus_client.REGISTRY.register(QueueCollector(queue))``.

    A scrape reads one snapshot and no task. ``tags`` bounds the tags that are exported by name, those with the largest
    backlog (see ``tags.chosen``); gauges of all others are summed as ``_other``. With 0 nothing has a label ``tag``.

    ``queue`` may be a function that opens one: it is called at the first scrape, and again after the store was gone.
    While the queue cannot be read, a scrape says ``queue_core_up 0``, ``trouble`` is the error, and it is logged when
    it is new. A registry takes one queue. Raises InvalidArgument for ``tags`` below 0.
    """

    def __init__(self, queue: Queue | Callable[[], Queue], *, tags: int = 50) -> None:
        if tags < 0:
            raise InvalidArgument(f"tags={tags} is negative; 0 exports no tag by name")
        self.trouble: QueueError | None = None
        self._queue = queue if isinstance(queue, Queue) else None
        self._open = None if isinstance(queue, Queue) else queue
        self._opening = threading.Lock()  # scrapes may run side by side
        self._limit = tags
        self._shown: frozenset[int] = frozenset()
        self._version = version("queue_core")

    def describe(self) -> Iterator[Metric]:
        """All families without samples, by which a registry refuses a second queue."""
        yield from self._head(None)
        yield from self._metrics(None)

    def collect(self) -> Iterator[Metric]:
        """One scrape. A queue that cannot be read raises nothing."""
        reading = self._read()
        yield from self._head(reading is not None)
        if reading is not None:
            yield from self._metrics(reading)

    def close(self) -> None:
        """Close the queue that was opened here."""
        with self._opening:
            if self._open is not None and self._queue is not None:
                self._queue.close()
                self._queue = None

    def _read(self) -> Reading | None:
        """None when the queue cannot be read."""
        try:
            queue = self._opened()
            snapshot = queue.snapshot()
            reading = Reading(snapshot, queue.storage(), survey(snapshot))
        except QueueError as error:
            if str(error) != str(self.trouble):
                log.warning("the queue cannot be read, scrapes say %sup 0: %s", PREFIX, error)
            self.trouble = error
            if isinstance(error, StoreGone):
                self.close()
            return None
        if self.trouble is not None:
            log.warning("the queue can be read again")
            self.trouble = None
        return reading

    def _opened(self) -> Queue:
        with self._opening:
            if self._queue is None:
                assert self._open is not None
                self._queue = self._open()
            return self._queue

    def _head(self, up: bool | None) -> Iterator[Metric]:
        yield GaugeMetricFamily(f"{PREFIX}up", "1 when this scrape could read the queue, else 0.", up)
        yield InfoMetricFamily(f"{PREFIX}build", "The version of queue_core.", {"version": self._version})

    def _metrics(self, reading: Reading | None) -> Iterator[Metric]:
        """All that is read of a queue; without a reading, the families without samples."""
        whole: Parts = []
        scrape: Parts = []
        named: Parts = []
        others: Parts = []
        if reading is not None:
            shown = chosen(reading.snapshot.tags, self._shown, self._limit)
            self._shown = frozenset(tag.number for tag in shown)
            whole, scrape = [((), reading.snapshot)], [((), reading)]
            named = [((label(tag.name),), tag) for tag in shown]
            others = [((OTHER,), rest(reading.snapshot, shown))]
        both: list[Family[Any]] = [*families.COUNTED, *families.SETTINGS]
        yield from (family.metric(PREFIX, (), whole) for family in families.STANDING)
        yield from (family.metric(PREFIX, (), whole) for family in both)
        yield from (family.metric(PREFIX, (), scrape) for family in families.QUEUE_ONLY)
        if self._limit:
            yield from (family.metric(TAG_PREFIX, ("tag",), named + others) for family in families.STANDING)
            yield from (family.metric(TAG_PREFIX, ("tag",), named) for family in [*both, *families.TAG_ONLY])
