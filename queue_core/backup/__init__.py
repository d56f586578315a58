"""Backup, restore, verify and salvage: a consistent copy while workers run, its way back, and what to do without.

``taking`` copies a store, ``restoring`` makes a store of the copy under a new epoch, ``verifying`` has either looked at
by a process of its own (``inspection``), which damage may kill; ``salvaging`` makes a store of what can still be read
of a damaged one. ``placing``: a directory appears whole, or not at all.
"""

from queue_core.backup.records import Backup, Fault, Restored, Salvaged, Verified
from queue_core.backup.restoring import restore
from queue_core.backup.salvaging import salvage
from queue_core.backup.taking import backup
from queue_core.backup.verifying import verify

__all__ = ["Backup", "Fault", "Restored", "Salvaged", "Verified", "backup", "restore", "salvage", "verify"]
