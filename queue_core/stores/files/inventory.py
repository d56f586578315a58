"""The whole store for ``check``: every task held against its link and its mark, and they against their number."""

from collections.abc import Iterator

from queue_core.errors import StoreCorrupt
from queue_core.stores.base import Inventory
from queue_core.stores.files import documents, names
from queue_core.stores.files.records import FilesRecords
from queue_core.stores.files.tree import Tree
from queue_core.task import Record, State, id_text


def take(records: FilesRecords, tree: Tree) -> Inventory:
    """Reads all of the tree; the tasks while they are asked for."""
    problems: list[str] = []
    every = list(records.tags())
    directories = {tag.number: names.tag_directory(tag.number, tag.name) for tag in every}
    stored = {path: tree.link(path) for path in tree.walk(names.NAMES, 1, names.DIGEST)}
    if stored != {names.name(tag.name): names.to_tag(directories[tag.number]) for tag in every}:
        problems.append("the links by the names of tags are not those of the tags")
    eligible = [path.rsplit("/", 1)[1] for path in tree.walk(names.ELIGIBLE, 1, names.TAG_DIRECTORY)]
    timers = map(names.timer_parts, tree.walk(names.TIMERS, 2, names.TIMER))
    return Inventory(
        meta=records.meta,
        tags=every,
        records=_tasks(tree, directories, problems),
        buckets=[],
        past=records.past(),
        touched=[],
        eligible={names.tag_number(directory) for directory in eligible},
        timers={number: at for at, number in timers},
        holders=list(_holders(tree, problems)),
        journal=iter(()),
        problems=problems,
    )


def _holders(tree: Tree, problems: list[str]) -> Iterator[tuple[int, bytes]]:
    for directory in tree.directories(names.KEYS, names.TAG_DIRECTORY):
        for path in tree.walk(f"{names.KEYS}/{directory}", 0, names.DIGEST):
            target = tree.link(path)
            if target is None or not names.ID.fullmatch(target[-36:]):
                problems.append(f"{path} is no link to a task's id")
            else:
                yield names.tag_number(directory), names.id_of(target)


def _tasks(tree: Tree, directories: dict[int, str], problems: list[str]) -> Iterator[Record]:
    """Every task, held against its link and its mark; then those against their number."""
    seen = dict.fromkeys(State, 0)
    for state in State:
        for directory in tree.directories(state, names.TAG_DIRECTORY):
            for path in tree.walk(f"{state}/{directory}", names.DEPTH[state], names.TASK[state]):
                record = _task(tree, path, directories, problems)
                if record is not None:
                    seen[state] += 1
                    yield record
    for state in names.LISTED:
        marks = sum(1 for _ in tree.walk(f"{names.ORDER}/{state}", names.DEPTH[state], names.ORDERED))
        if marks != seen[state]:
            problems.append(f"{names.ORDER}/{state} has {marks} marks for {seen[state]} tasks")
    ids = sum(1 for _ in tree.walk(names.IDS, 1, names.ID))
    if ids != sum(seen.values()):
        problems.append(f"there are {ids} ids for {sum(seen.values())} tasks")


def _task(tree: Tree, path: str, directories: dict[int, str], problems: list[str]) -> Record | None:
    """The task at a path of one; None for a foreign file, and for one that does not decode."""
    at = names.task_at(path)
    if at is None:
        return None
    if tree.link(names.id(at.id)) != names.location(at.state, names.tag_number(at.tag), at.order, at.place):
        problems.append(f"{path} is not where the id of task {id_text(at.id)} points to: somebody's copy?")
        return None
    try:
        record = documents.load_task(tree.read(path) or b"")
    except StoreCorrupt as error:
        problems.append(f"{path} does not decode: {error}")
        return None
    if names.task(record, directories.get(record.tag, "")) != path:
        problems.append(f"{path} holds a task that belongs elsewhere")
    mark = names.in_order(record)
    if mark is not None and tree.read(mark) is None:
        problems.append(f"{path} is not in the order of its state")
    return record
