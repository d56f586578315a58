"""The queue: its verbs, with arguments checked and payloads turned into bytes outside any transaction."""

from queue_core.queue.arguments import BATCH_LIMIT, LONGEST, TAG_LIMIT, check_tag
from queue_core.queue.opening import open_queue, system_clock
from queue_core.queue.payloads import Item, Serializer, Undecodable
from queue_core.queue.verbs import RECHECK, Queue, default_owner
from queue_core.queue.view import View

__all__ = [
    "BATCH_LIMIT",
    "LONGEST",
    "RECHECK",
    "TAG_LIMIT",
    "Item",
    "Queue",
    "Serializer",
    "Undecodable",
    "View",
    "check_tag",
    "default_owner",
    "open_queue",
    "system_clock",
]
