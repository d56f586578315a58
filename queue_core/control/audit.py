"""How entries of the audit are made, and what is done where none is kept."""

import json
import logging

from msgspec.structs import asdict, replace

from queue_core.errors import InvalidArgument
from queue_core.plans import AuditEntry
from queue_core.queue import Queue
from queue_core.stores.base import Control, Store

log = logging.getLogger("queue_core.audit")


def control_of(store: Store) -> Control:
    """Raises InvalidArgument where the store keeps no plans."""
    if store.control is None:
        raise InvalidArgument(
            f"{store.url} keeps neither plans nor an audit: use an lmdb store, or act on tasks one by one"
        )
    return store.control


def note(queue: Queue, entry: AuditEntry) -> None:
    """Append to the audit; where the store keeps none, to the log ``queue_core.audit``."""
    if queue.capabilities.plans:
        queue.perform(lambda store: control_of(store).note(entry))
    else:
        tell(entry)


def tell(entry: AuditEntry) -> None:
    """One line of JSON to the log."""
    at = replace(entry, outcome=entry.outcome or "done")
    log.info("%s", json.dumps({name: value for name, value in asdict(at).items() if value}))
