"""What if: the same work again, with other weights, limits, workers, or in one line for all."""

import random
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from queue_core.errors import InvalidArgument
from queue_core.history import Event
from queue_core.queue.arguments import SETTINGS, as_whole
from queue_core.simulate.result import Result, result
from queue_core.simulate.run import Fifo, Limit, Line, Rotation, Simulation
from queue_core.simulate.workload import Workload
from queue_core.snapshot import Snapshot

Order = Literal["rotation", "fifo"]
WORKERS = 100_000


def simulate(
    work: Workload | Iterable[Event], *, weights: Mapping[str, int] | None = None,
    limits: Mapping[str, Limit] | None = None, workers: int = 1, policy: Order = "rotation", seed: int = 0,
) -> Result:  # fmt: skip
    """Play work, or a queue's journal, again: who is served when, if so many workers take task after task.

    It is a simulation of discrete events on a clock of its own. By ``policy="rotation"`` tags are served by the very
    functions of ``queue_core.rotation`` with which every store decides, on lines kept here: the memory store itself
    takes about nine times as long (160 µs of a core for a task, against 18 with the frames). That the serves are those
    of the memory store is a test. By "fifo" there is one line for all, by place: what a queue without tags would do.

    ``weights`` and ``limits`` are by name of tag; a tag that is not named has the weight that was recorded, or 1, and
    no limit. A tag that is paused is not served at all. Tags are never forgotten, and no task fails, expires or
    is tried again. Service times that are not known are drawn, by ``seed``, from the known ones of the tag, or of all
    tags where it has none; the same arguments give the same result.

    Raises InvalidArgument: a tag that the work has not, a weight, limit, number of workers or policy that cannot be
    meant, or service times of which none is known.
    """
    work = work if isinstance(work, Workload) else Workload.from_journal(work)
    workers = as_whole(workers, "workers", 1, WORKERS)
    if policy not in get_args(Order):
        raise InvalidArgument(f"policy is {policy!r:.100}: it is one of {', '.join(get_args(Order))}")
    weights = {**dict.fromkeys(work.names, 1), **work.weights, **_checked(weights or {}, "weights", work)}
    limits = _checked(limits or {}, "limits", work)
    lines = [Line(0, 1, Limit(), 0)]  # tags are numbered from 1
    for number, name in enumerate(work.names, 1):
        limit = limits.get(name, Limit())
        lines.append(Line(number, weights[name], limit, SETTINGS["min_interval"](limit.min_interval, "min_interval")))
    services, drawn = _services(work, as_whole(seed, "seed", -(1 << 62), 1 << 62))
    chosen = Rotation(work) if policy == "rotation" else Fifo(lines)
    run = Simulation(work, services, lines, chosen, workers).run()
    return result(run, work, services, drawn, policy, workers, seed, weights, limits)


def limits_of(snapshot: Snapshot) -> dict[str, Limit]:
    """The limits that the tags of a queue have now, of those that have any."""
    settings = {tag.name: tag.settings for tag in snapshot.tags}
    found = {name: Limit(one.max_inflight, one.min_interval, one.paused) for name, one in settings.items()}
    return {name: limit for name, limit in found.items() if limit != Limit()}


def _checked(given: Mapping[str, Any], what: str, work: Workload) -> dict[str, Any]:
    known = set(work.names)
    for name, value in given.items():
        if name not in known:
            raise InvalidArgument(
                f"{what} names tag {name!r:.100}, which the work has not: its {len(known):,} tags are "
                f"{', '.join(repr(tag)[:100] for tag in work.names[:5])}{', …' if len(known) > 5 else ''}"
            )
        if what == "weights":
            SETTINGS["weight"](value, f"the weight of tag {name[:100]!r}")
        elif not isinstance(value, Limit):
            raise InvalidArgument(f"the limit of tag {name[:100]!r} is {value!r:.100}: give a Limit")
        else:
            for field in ("max_inflight", "min_interval", "paused"):
                SETTINGS[field](getattr(value, field), f"{field} of tag {name[:100]!r}")
    return dict(given)


def _services(work: Workload, seed: int) -> tuple[list[int], int]:
    """(service times by row, how many of them were drawn)."""
    missing = sum(service is None for service in work.service)
    by_tag: dict[int, list[int]] = {}
    if not missing:
        return [service for service in work.service if service is not None], 0
    for tag, service in zip(work.tag, work.service, strict=True):
        if service is not None:
            by_tag.setdefault(tag, []).append(service)
    if not by_tag:
        raise InvalidArgument(
            f"none of {missing:,} service times is known: give work in which some task has ended, or service times"
        )
    numbers, all_known = random.Random(seed), [one for tag in sorted(by_tag) for one in by_tag[tag]]
    services = [
        numbers.choice(by_tag.get(tag, all_known)) if service is None else service
        for tag, service in zip(work.tag, work.service, strict=True)
    ]
    return services, missing
