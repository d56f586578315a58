"""The queue for Prometheus: one snapshot per scrape, never a task, and a bounded number of series."""

from queue_core.errors import MissingDriver

try:
    import prometheus_client  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDriver(
        f"metrics need the package prometheus-client: pip install 'queue_core[metrics]' ({error})"
    ) from error

from queue_core.prometheus.collector import QueueCollector
from queue_core.prometheus.tags import OTHER, label

__all__ = ["OTHER", "QueueCollector", "label"]
