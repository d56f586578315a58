"""Tasks into a file and back: NDJSON, exact or masked, and CSV for spreadsheets.

Beside the file stands ``FILE.about.json``: the filter, when the snapshot was taken, how many tasks, whether they are
all, and the digest of the file, so that an import knows a file that was cut off or changed.
"""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, TextIO

from msgspec.structs import replace

from queue_core.control.audit import note
from queue_core.control.person import Person
from queue_core.control.roles import Role, needs, permit
from queue_core.errors import InvalidArgument, StoreCorrupt, StoreFull
from queue_core.query import Search, parse
from queue_core.queue import check_tag
from queue_core.queue.arguments import as_text
from queue_core.redact import Redactor
from queue_core.stores.base import Adopted, Found
from queue_core.stores.files.documents import load_task, task_fields
from queue_core.task import LAST_MOMENT, Record, State, clean_text, id_text, moment

BATCH, BATCH_BYTES = 1_000, 16 << 20  # tasks, and bytes of payload, taken in by one commit
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "＝",
    "＋",
    "－",
    "＠",
)  # what a spreadsheet takes for the beginning of a formula
MOST = 1 << 62  # of a number of a task
COLUMNS = (
    "id", "tag", "state", "created", "entered", "attempts", "max_attempts", "leases", "cycle", "dedupe_key", "group",
    "reason", "error", "payload",
)  # fmt: skip

Seen = Callable[[int, int], bool | None]


@dataclass(frozen=True)
class Export:
    """What was written. ``complete``: every task that the filter finds is there."""

    path: Path
    format: str
    where: str
    at: str
    tasks: int
    scanned: int
    complete: bool
    masked: bool
    digest: str


@dataclass
class Import:
    """What came of a file: tasks that were taken in, and why others were not."""

    tasks: int = 0
    taken: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class Moving(Person):
    """Export and import."""

    def export_tasks(
        self, path: str | os.PathLike[str], where: str = "", *, masked: bool = True, limit: int | None = None,
        progress: Seen | None = None,
    ) -> Export:  # fmt: skip
        """Write the tasks that a filter finds to PATH, ``.ndjson`` or ``.csv``, and what they are to PATH.about.json.

        All come from one snapshot. Secrets are masked; with ``masked=False`` (admin, and it is audited) the tasks are
        exact, and NDJSON can be imported again. ``limit`` and a ``progress`` that returns False end it early, which is
        written down. A file that is there is replaced once the new one is whole. Raises InvalidArgument, InvalidFilter,
        NotPermitted, StoreFull.
        """
        if not masked:
            permit(self, Role.ADMIN, "an export that masks nothing")
        target = Path(path)
        if target.suffix not in (".ndjson", ".csv"):
            raise InvalidArgument(f"{target.name!r} is neither .ndjson nor .csv: name the file so")
        expression = parse(where)
        done, complete = 0, True
        mask = self.redactor if masked else None
        with _replacing(target) as file:
            with self.queue.view() as view:
                at, search = moment(view.reader.now).isoformat(), Search(view.reader, expression, mask=self.redactor)
                write = _writer(file, target.suffix, mask)
                for page in search.pages():
                    for found in page[: None if limit is None else limit - done]:
                        write(found)
                    done += len(page) if limit is None else min(len(page), limit - done)
                    over = limit is not None and done >= limit
                    if over or (progress is not None and progress(search.scanned, search.total) is False):
                        complete = search.scanned >= search.total and (limit is None or search.found <= limit)
                        break
            file.flush()
            export = Export(
                target, target.suffix[1:], where, at, done, search.scanned, complete, masked, _digest(Path(file.name))
            )
            about = {name: value for name, value in vars(export).items() if name != "path"} | {"file": target.name}
            with _replacing(beside(target)) as side:
                json.dump(about, side, ensure_ascii=False, indent=2)
            if not masked:  # before it is there: what cannot be written down is not done
                note(self.queue, self._entry("export", where, "", count=done, intent=target.name, outcome="unmasked"))
        return export

    @needs(Role.OPERATOR)
    def import_tasks(
        self, path: str | os.PathLike[str], *, reason: str = "", dry_run: bool = False, progress: Seen | None = None
    ) -> Import:
        """Take in the tasks of an unmasked NDJSON export, in their order, each with its id, state and story.

        They stand at the tails of their tags; what was in flight is pending. A task whose id is here already is left
        out, so that an import can be repeated. The whole file is read before the first task is taken in. Raises
        InvalidArgument for a file that was masked, cut off, changed, or has a line that is no task.
        """
        source = Path(path)
        with self.queue.view() as view:
            most = view.reader.meta.max_payload
        total = _check(source, most)
        outcome = Import(tasks=total)
        if dry_run:
            with self.queue.view() as view:
                known = sum(view.reader.find(item.record.id) is not None for item in _read(source))
            outcome.left_out.update({"a task of this id is here already": known} if known else {})
            return outcome
        entry = self._entry("import", None, clean_text(reason), intent=f"{source.name}: {total:,} tasks")
        note(self.queue, replace(entry, outcome="begun"))
        seen = 0
        try:
            for batch in _batches(_read(source)):
                for why in self.queue.perform(lambda store, batch=batch: store.adopt(batch)):  # type: ignore[misc]
                    outcome.taken += why is None
                    if why is not None:
                        outcome.left_out[why] += 1
                seen += len(batch)
                if progress is not None and progress(seen, total) is False:
                    break
        finally:
            words = f"{outcome.taken:,} of {total:,} taken in"
            note(self.queue, replace(entry, count=outcome.taken, outcome=words))
        return outcome


# --- writing ----------------------------------------------------------------------------------------


def beside(path: Path) -> Path:
    """The file that tells what another is."""
    return path.with_name(path.name + ".about.json")


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes the place of another when it is whole and flushed."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(new, "w", encoding="utf-8", newline="", opener=_for_its_owner) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        raise StoreFull(
            f"{path} cannot be written ({error.strerror}): nothing was changed; name another path"
        ) from error
    finally:
        new.unlink(missing_ok=True)


def _for_its_owner(path: str, flags: int) -> int:
    """It may hold secrets."""
    return os.open(path, flags, 0o600)


def _writer(file: TextIO, suffix: str, mask: Redactor | None) -> Callable[[Found], None]:
    if suffix == ".ndjson":

        def line(found: Found) -> None:
            fields = task_fields(_shown(found.record, mask), found.tag)
            if mask is not None:
                fields.append(("masked", "true"))
            file.write("{" + ", ".join(f'"{name}": {text}' for name, text in fields) + "}\n")

        return line
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    return lambda found: rows.writerow(map(neutral, _cells(_shown(found.record, mask), found.tag)))


def _shown(record: Record, mask: Redactor | None) -> Record:
    """The record as it is written: its lease can never be used from a file."""
    if record.hold is not None:
        record = replace(record, hold=replace(record.hold, nonce=0))
    return record if mask is None else mask.record(record)


def _cells(record: Record, tag: str) -> Iterable[Any]:
    entered = moment(record.entered).isoformat() if record.entered else ""
    return (
        id_text(record.id), tag, record.state, moment(record.created).isoformat(), entered, record.attempts,
        record.max_attempts, record.leases, record.cycle, record.dedupe_key or "", record.group.hex(),
        record.reason or "", record.error or "", record.payload.decode("utf-8", "backslashreplace"),
    )  # fmt: skip


def neutral(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before it (OWASP, CSV Injection)."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = blake2b(digest_size=16)
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


# --- reading ----------------------------------------------------------------------------------------


def _check(path: Path, most: int) -> int:
    """How many tasks a file holds. Raises InvalidArgument unless all of them can be taken in."""
    if path.suffix != ".ndjson":
        raise InvalidArgument(f"{path.name!r} is no .ndjson: only an export to NDJSON can be imported")
    about = beside(path)
    try:
        total = 0
        for total, item in enumerate(_read(path), 1):
            if len(item.record.payload) > most:
                raise InvalidArgument(
                    f"{path.name}, line {total:,}: its payload is {len(item.record.payload):,} bytes, and the limit of "
                    f"this queue is {most:,}: raise max_payload with configure() first"
                )
        if not about.exists():
            return total
        told = json.loads(about.read_text())
        digest, tasks = told["digest"], told["tasks"]
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"{about} is not what an export writes beside its file ({error!r:.100})") from None
    if total != tasks or digest != _digest(path):
        raise InvalidArgument(
            f"{path} is not the file that was exported: {tasks:,} tasks were written and {total:,} are there, or their "
            f"text has changed; get it again, or remove {about.name} to take it as it is"
        )
    return total


def _read(path: Path) -> Iterator[Adopted]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield _task(line, f"{path.name}, line {number:,}")


def _task(line: bytes, where: str) -> Adopted:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or not line.endswith(b"\n"):
            raise ValueError("the line is cut off")
        if fields.get("masked"):
            raise InvalidArgument(f"{where}: it was masked, so that its secrets are lost: import an unmasked export")
        tag, record = check_tag(fields["tag"]), load_task(line)
        _plausible(record)
    except (ValueError, KeyError, StoreCorrupt, RecursionError) as error:
        if isinstance(error, InvalidArgument) and str(error).startswith(where):
            raise
        raise InvalidArgument(
            f"{where}: no task as an export writes it ({str(error)[:200]}): nothing was taken in"
        ) from None
    return Adopted(tag, record)


def _plausible(record: Record) -> None:
    """Raises ValueError for what no store can hold."""
    ended = record.leases - (record.state is State.INFLIGHT)
    if not 0 <= record.attempts <= record.leases or len(record.history) != min(ended, 100):
        raise ValueError(f"{record.attempts} attempts of {record.leases} leases, {len(record.history)} of them told")
    if record.max_attempts < 1 or record.cycle < 1:
        raise ValueError("a cycle or max_attempts that no task has")
    if record.state is State.TRASH and record.origin not in (State.PENDING, State.SCHEDULED, State.DEAD):
        raise ValueError("it is in trash, and came from nowhere")
    times = [record.created, record.ready, record.due, record.entered]
    numbers = [
        record.attempts, record.max_attempts, record.leases, record.cycle, record.defers, record.place, record.version,
        record.entry, record.aged,
    ]  # fmt: skip
    texts, names = [record.error, record.reason], [record.dedupe_key or ""]
    for attempt in record.history:
        times += [attempt.started, attempt.ended]
        numbers += [attempt.number, attempt.cycle]
        texts.append(attempt.error)
        names.append(attempt.owner)
    if record.hold is not None:
        times += [record.hold.leased, record.hold.beat, record.hold.expires]
        numbers += [record.hold.fence, record.hold.ttl]
        names.append(record.hold.owner)
    times += [edit.at for edit in record.edits]
    if not all(0 <= at <= LAST_MOMENT for at in times):
        raise ValueError("a time before 1970 or after the year 9999")
    if not all(0 <= number < MOST for number in numbers):
        raise ValueError("a number that no store can hold")
    if not all(text is None or clean_text(text) == text for text in texts):
        raise ValueError("a text that no store can hold")
    for name in names:
        as_text(name, "an owner or a dedupe key")


def _batches(items: Iterable[Adopted]) -> Iterator[list[Adopted]]:
    batch: list[Adopted] = []
    size = 0
    for item in items:
        if batch and (len(batch) == BATCH or size + len(item.record.payload) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item.record.payload)
    if batch:
        yield batch
