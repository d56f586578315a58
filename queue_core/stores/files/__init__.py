"""The files store: one readable JSON file per task, for people who want ``ls`` and ``cat``.

``names`` has the layout, ``documents`` the contents; ``tree`` is a transaction's view, ``records`` with
``queue_records`` the engine's seam over it; ``directory`` commits, by ``redo`` and under ``lock``.
"""

from queue_core.stores.files.store import FilesStore, open_files

__all__ = ["FilesStore", "open_files"]
