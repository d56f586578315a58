"""Every error of the tree is provoked for real, and its message says what, with which value, and what to do."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import lmdb
import pytest

import queue_core
from queue_core import codec, errors, keys, open_queue
from queue_core.control import Operator
from queue_core.query import parse
from queue_core.stores.lmdb.environment import Environment
from queue_core.task import State

MISSING = UUID(int=5)


def lease_lost(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.ack_many(["a", "b" * 200, "c", "d", "e"])


def task_not_found(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.get(MISSING)


def conflict(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.redrive(queue.push("x", tag="a", id=MISSING).id)


def invalid_argument(path: Path) -> None:
    open_queue("postgres://somewhere")


def invalid_payload(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.push({"when": [1, {2, 3}]})


def invalid_tag(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.push("x", tag="é" * 40_000)


def invalid_filter(path: Path) -> None:
    parse("tga:x")


def not_permitted(path: Path) -> None:
    with open_queue("memory://") as queue:
        Operator(queue, "eve", "viewer").pause()


def queue_full(path: Path) -> None:
    with open_queue("memory://") as queue:
        queue.configure(max_pending=0)
        queue.push("x")


def store_full(path: Path) -> None:
    with open_queue(path, map_size=1 << 20, max_size=1 << 20) as queue:
        for _ in range(1_000):
            queue.push("x" * 10_000)


def store_busy(path: Path) -> None:
    with open_queue(path, busy_timeout=0.1) as queue:
        code = (
            "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
        )
        command = [sys.executable, "-c", f"{code}; input()", str(path / "write.lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            try:
                queue.push("x")
            finally:
                holder.kill()


def store_gone(path: Path) -> None:
    queue = open_queue(path)
    queue.close()
    queue.push("x")


def store_corrupt(path: Path) -> None:
    path.mkdir(exist_ok=True)
    (path / "data.mdb").write_bytes(b"not LMDB at all " * 1_000)
    open_queue(path)


def store_version(path: Path) -> None:
    open_queue(path).close()
    with lmdb.open(str(path), max_dbs=0) as environment, environment.begin(write=True) as txn:
        meta = codec.decode_meta(bytes(txn.get(keys.META) or b""))
        meta.format = 99
        txn.put(keys.META, codec.encode(meta))
    open_queue(path)


class _LostAnswer:
    """A transaction whose commit happens, and whose answer does not arrive."""

    def __init__(self, txn: Any) -> None:
        self._txn = txn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)

    def commit(self) -> None:
        self._txn.commit()
        raise lmdb.Error("the line went dead")


def outcome_unknown(path: Path) -> None:
    writing = Environment.writing
    with open_queue(path) as queue, pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def cut_off(self: Environment) -> Iterator[Any]:
            with writing(self) as txn:
                yield _LostAnswer(txn)

        patch.setattr(Environment, "writing", cut_off)
        queue.push("x")


def missing_driver(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "queue_core.stores.lmdb", None)
        open_queue(path)


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "LeaseLost": (lease_lost, r"lease lost: 'a', 'b{100}', 'c' and 2 more; nothing was changed: drop the work"),
    "TaskNotFound": (task_not_found, rf"no task '{MISSING}': it was acknowledged or expunged, or never pushed here"),
    "Conflict": (conflict, rf"task {MISSING} of tag 'a' is pending at version 1; redrive needs it dead"),
    "InvalidArgument": (
        invalid_argument,
        r"'postgres://somewhere' names no store: use lmdb:///path \(or",
    ),
    "InvalidPayload": (invalid_payload, r"payload\['when'\]\[1\] is \{2, 3\} of type set: .* convert it first"),
    "InvalidTag": (invalid_tag, r"tag 'é{60}'… is 80,000 bytes as UTF-8; the limit is 65,535"),
    "InvalidFilter": (invalid_filter, r"there is no field 'tga': did you mean tag"),
    "NotPermitted": (not_permitted, r"eve has the role viewer, and pause needs the role operator: nothing was changed"),
    "QueueFull": (queue_full, r"holds 0 waiting tasks and max_pending is 0: push again when workers have caught up"),
    "StoreFull": (store_full, r"uses [\d,]+ of 1,048,576 bytes and keeps the rest for draining it: work off tasks"),
    "StoreBusy": (store_busy, r"another process has held the write lock of .* for 0.1 s: the operation was withdrawn"),
    "StoreGone": (store_gone, r"lmdb://.* was closed: open the queue again"),
    "StoreCorrupt": (store_corrupt, r"is not a readable LMDB file .*: .*queue-core restore BACKUP"),
    "StoreVersion": (store_version, r"has format 99; this queue_core knows 3: upgrade queue_core"),
    "OutcomeUnknown": (
        outcome_unknown,
        r"answer was lost \(the line went dead\): look the task up before trying",
    ),
    "MissingDriver": (missing_driver, r"the lmdb store needs the package lmdb: pip install lmdb"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_says_what_was_wrong_and_what_to_do(name: str, tmp_path: Path) -> None:
    provoke, message = CASES[name]
    with pytest.raises(getattr(errors, name), match=message) as caught:
        provoke(tmp_path)
    assert type(caught.value).__name__ == name


def test_after_an_unknown_outcome_the_task_can_be_looked_up(tmp_path: Path) -> None:
    with pytest.raises(errors.OutcomeUnknown):
        outcome_unknown(tmp_path)
    with open_queue(tmp_path) as queue:
        assert queue.counts().pending == 1
        assert queue.check() == []


def test_every_error_that_is_raised_has_its_case() -> None:
    tree = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.QueueError)}
    raised = {
        node.func.id
        for path in Path(queue_core.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in tree
    }
    assert raised - {"QueueError", "StoreError"} == set(CASES)


def test_the_tree_can_be_caught_by_decision() -> None:
    tree = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert all(issubclass(kind, errors.QueueError) for kind in tree if kind.__module__ == errors.__name__)
    for kind in (errors.InvalidPayload, errors.InvalidTag, errors.InvalidFilter):
        assert issubclass(kind, errors.InvalidArgument)
        assert issubclass(kind, ValueError)
    for store in (errors.StoreFull, errors.StoreBusy, errors.StoreGone, errors.StoreCorrupt, errors.StoreVersion):
        assert issubclass(store, errors.StoreError)
    assert issubclass(errors.MissingDriver, ImportError)
    assert not issubclass(errors.QueueFull, errors.StoreError)


def test_details_are_attributes() -> None:
    assert errors.LeaseLost(["a", "b"]).tokens == ("a", "b")
    assert errors.TaskNotFound("x").id == "x"
    assert errors.Conflict("no", state=State.DEAD, version=3).version == 3
    assert errors.StoreFull("no room", done=5).done == 5


@pytest.mark.parametrize("name", [name for name, kind in inspect.getmembers(errors, inspect.isclass)])
def test_every_error_is_described(name: str) -> None:
    assert len(inspect.getdoc(getattr(errors, name)) or "") > 20


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("lmdb://", {}, "names no directory: write lmdb:///path/to/queue"),
        ("memory://", {"durability": "full"}, "the memory store has no option durability"),
        ("redis://x", {}, "names no store"),
    ],
)
def test_a_bad_url_or_option_is_named(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        open_queue(url, **options)
