"""The memory store: the reference, and the engine of what-if simulations.

Plain dictionaries and sorted lists behind one lock. An operation that fails is undone step by step.
"""

from queue_core.stores.memory.records import MemoryRecords
from queue_core.stores.memory.store import MemoryStore, open_memory

__all__ = ["MemoryRecords", "MemoryStore", "open_memory"]
