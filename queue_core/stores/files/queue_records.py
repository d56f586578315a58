"""The records that are no tasks: the queue's own, those of tags and of workers."""

from collections.abc import Iterator, Sequence

from queue_core.errors import StoreCorrupt
from queue_core.ledger import Counts, Meta, Past, Tag, Totals, WorkerRecord, copied
from queue_core.stores.files import documents, names
from queue_core.stores.files.tree import Tree

KNOWN = 10_000  # directory names of tags that a handle remembers


class QueueRecords:
    """Each is read once, changed in place, and written at the end if it has changed."""

    def __init__(self, tree: Tree, now: int, directories: dict[int, str]) -> None:
        self.now = now
        self.commit = 0  # the number of the last one
        self._tree = tree
        self._directories = directories  # of tags that are stored; their names never change
        self._new: dict[int, str] = {}
        self._tags: dict[int, tuple[Tag, bytes]] = {}
        data = tree.read(names.QUEUE)
        if data is None:
            self.meta = Meta(Counts(), Totals(), history=False)
        else:
            self.meta, document = documents.load(Meta, data, names.QUEUE)
            self.commit = int(document.get("commit") or 0)

    def _finish_queue(self) -> int:
        for number, (tag, before) in self._tags.items():
            after = documents.dump(tag)
            if after != before:
                self._tree.put(names.tag_file(self._directory(number)), after)
        self.commit += 1
        self._tree.put(names.QUEUE, documents.dump(self.meta, commit=self.commit))
        return self.commit

    def committed(self) -> None:
        """The tags that were new are stored."""
        if len(self._directories) > KNOWN:
            self._directories.clear()
        self._directories.update(self._new)

    def past(self) -> Past | None:
        data = self._tree.read(names.PAST)
        return documents.load(Past, data, names.PAST)[0] if data is not None else None

    def put_past(self, past: Past) -> None:
        self._tree.put(names.PAST, documents.dump(past))

    # --- tags

    def _directory(self, number: int) -> str:
        """``TAG``. Raises StoreCorrupt."""
        found = self._find_directory(number)
        if found is None:
            raise StoreCorrupt(f"tag number {number} is not stored; run queue-core check")
        return found

    def _find_directory(self, number: int) -> str | None:
        found = self._new.get(number) or self._directories.get(number)
        if found is None:
            name = next(self._tree.files(
                f"{names.TAGS}/{names.tag_shard(number)}", names.TAG_FILE, minimum=f"{number:09d}",
                maximum=f"{number + 1:09d}",
            ), None)  # fmt: skip
            if name is not None:
                found = self._directories[number] = names.tag_of_file(f"/{name}")
        return found

    def tag(self, number: int) -> Tag:
        tag = self._tag(number)
        if tag is None:
            raise StoreCorrupt(f"tag number {number} is not stored; run queue-core check")
        return tag

    def _tag(self, number: int) -> Tag | None:
        known = self._tags.get(number)
        if known is None:
            known = self._stored_tag(number)
            if known is None:
                return None
            self._tags[number] = known
        return known[0]

    def _stored_tag(self, number: int) -> tuple[Tag, bytes] | None:
        directory = self._find_directory(number)
        if directory is None:
            return None
        path = names.tag_file(directory)
        data = self._tree.read(path)
        return (documents.load(Tag, data, path)[0], data) if data is not None else None

    def find_tag(self, name: str) -> Tag | None:
        target = self._tree.link(names.name(name))
        directory = names.tag_of_file(f"/{target}")
        return self._tag(names.tag_number(directory)) if names.TAG_DIRECTORY.fullmatch(directory) else None

    def add_tag(self, name: str) -> Tag:
        self.meta.last_tag += 1
        number = self.meta.last_tag
        tag = Tag(number, name, self.now, Counts())
        directory = self._new[number] = names.tag_directory(number, name)
        self._tags[number] = (tag, b"")
        self._tree.put(names.tag_file(directory), b"")  # its place; finish() writes it
        self._tree.point(names.name(name), names.to_tag(directory))
        return tag

    def remove_tag(self, tag: Tag) -> None:
        self._tree.remove(names.tag_file(self._directory(tag.number)))
        self._tree.remove(names.name(tag.name))
        self._tags.pop(tag.number, None)
        self._new.pop(tag.number, None)

    def _numbers(self, start: int = 0, *, reverse: bool = False) -> Iterator[int]:
        """Of known tags."""
        at = None if reverse else f"{names.tag_shard(start)}/{start:09d}"
        for path in self._tree.walk(names.TAGS, 1, names.TAG_FILE, at, reverse=reverse):
            yield names.tag_number(names.tag_of_file(path))

    def tags(self) -> Iterator[Tag]:
        return (tag.whole() for tag in self.look(list(self._numbers())))

    def look(self, numbers: Sequence[int]) -> list[Tag]:
        found = []
        for number in numbers:
            if number in self._tags:
                found.append(copied(self._tags[number][0]))
            elif (stored := self._stored_tag(number)) is not None:
                found.append(stored[0])
        return found

    def known(self, number: int) -> int | None:
        return next(self._numbers(number), None)

    def last_known(self) -> int:
        return next(self._numbers(reverse=True), 0)

    # --- workers

    def workers(self) -> list[WorkerRecord]:
        found = []
        for path in self._tree.walk(names.WORKERS, 0, names.JSON):
            data = self._tree.read(path)
            if data is not None:
                found.append(documents.load(WorkerRecord, data, path)[0])
        return sorted(found, key=lambda worker: str(worker.id))

    def put_worker(self, worker: WorkerRecord | None, id: str = "") -> None:
        if worker is None:
            self._tree.remove(names.worker(id))
        else:
            self._tree.put(names.worker(worker.id), documents.dump(worker))
