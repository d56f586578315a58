"""The worker: leases tasks, gives them to a handler, keeps the leases alive, and settles them.

``terms`` is what it was told, ``job`` what a handler sees, ``pulse`` the heartbeats, ``ports`` threads and the
event loop, ``crew`` the loop over both, ``processes`` and ``child`` the same in other processes, ``main`` signals
and the end.
"""

from queue_core.worker.job import Defer, Job, Reject, Retry
from queue_core.worker.main import Worker
from queue_core.worker.terms import Summary

__all__ = ["Defer", "Job", "Reject", "Retry", "Summary", "Worker"]
