"""Which tags are exported by name, and under which label."""

import re
from collections.abc import Collection, Sequence
from hashlib import blake2b
from heapq import nsmallest

from queue_core.snapshot import TagStats

OTHER = "_other"  # all tags that are not exported by name
EMPTY = "_empty"  # the tag "": in Prometheus an empty label is no label
LABEL_LIMIT = 100  # characters of a tag
STAY = 2  # a tag keeps its place while it is among so many times the limit

_MARKED = re.compile(r"#[0-9a-f]{32}\Z")


def label(tag: str) -> str:
    """The value of the label ``tag``: the tag itself, wherever that is possible. Two tags never share one.

    A tag that is over 100 characters, has signs that do not print, or looks like a label of this function's own
    making is shown cleaned and cut, with a 128-bit hash (BLAKE2b of its UTF-8) behind it.
    """
    if not tag:
        return EMPTY
    if len(tag) <= LABEL_LIMIT and tag.isprintable() and tag not in (OTHER, EMPTY) and not _MARKED.search(tag):
        return tag
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in tag[:LABEL_LIMIT])
    return f"{shown}#{blake2b(tag.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def chosen(tags: Sequence[TagStats], shown: Collection[int], limit: int) -> list[TagStats]:
    """The tags to export by name, in the order of the ring: the largest backlogs, but no more changes than needed.

    Every change of the set makes new series and ends others. So a tag that was ``shown`` (by number) stays while its
    backlog is among the ``2 * limit`` largest. Among equal backlogs those count as larger that were leased more,
    then those that were seen first: of a queue that keeps up, where nothing waits, the busiest tags are exported.
    """
    largest = nsmallest(STAY * limit, tags, key=_rank)
    stay = [tag for tag in largest if tag.number in shown]
    come = [tag for tag in largest if tag.number not in shown]
    return sorted((stay + come)[:limit], key=lambda tag: tag.number)


def _rank(tag: TagStats) -> tuple[int, int, int]:
    return -tag.backlog, -tag.totals.leased, tag.number
