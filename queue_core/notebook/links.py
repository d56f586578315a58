"""Where the dashboard shows what a notebook shows: its deep links."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from queue_core.errors import InvalidArgument
from queue_core.frames import tag_label
from queue_core.frames.control import AUDIT, GROUPS, PLANS
from queue_core.frames.tables import DEAD, LEASES, SERVES, TAGS
from queue_core.frames.turns import RING, SHARES
from queue_core.plans import Plan
from queue_core.queue import Queue
from queue_core.snapshot import Snapshot
from queue_core.task import Lease, Task, id_text, microseconds, parse_id

BASE = "http://127.0.0.1:8501"
SPANS = ("15 min", "2 h", "24 h", "30 days")  # the first is what a page shows when none is said
PAGES: Mapping[str, tuple[str, frozenset[str]]] = {  # where it is, and what its address may say
    "overview": ("", frozenset({"tag", "text", "span", "at"})),
    "fairness": ("fairness", frozenset({"tag", "text", "at"})),
    "inflight": ("inflight", frozenset({"tag", "text", "owner"})),
    "dead": ("dead", frozenset({"tag", "where", "trash"})),
    "tag": ("tag", frozenset({"tag", "span", "at"})),
    "task": ("task", frozenset({"task"})),
    "operations": ("operations", frozenset({"plan", "show"})),
}
SHOWN_BY = (
    (DEAD, "dead"), (GROUPS, "dead"), (LEASES, "inflight"), (SHARES, "fairness"), (RING, "fairness"),
    (SERVES, "fairness"), (PLANS, "operations"), (AUDIT, "operations"), (TAGS, "overview"),
)  # fmt: skip


def dashboard_url(
    page: str = "overview", *, tag: str | None = None, text: str | None = None, where: str | None = None,
    trash: bool = False, task: str | None = None, owner: str | None = None, span: str | None = None,
    at: datetime | None = None, plan: int | None = None, show: str | None = None, base: str | None = None,
) -> str:  # fmt: skip
    """The address of a page of the dashboard: overview, fairness, inflight, dead, tag, task or operations.

    ``tag`` is an exact name, ``where`` a filter, ``task`` an id, ``span`` one of ``SPANS``, ``at`` an aware datetime to
    look back to. ``base`` is that of the dashboard: ``QUEUE_DASHBOARD``, or port 8501 of this machine. Raises
    InvalidArgument for a page that there is not, and for what it cannot show.
    """
    if page not in PAGES:
        raise InvalidArgument(f"page is {page!r:.100}: it is one of {', '.join(PAGES)}")
    given: dict[str, Any] = {
        "tag": None if tag is None else tag_label(tag), "text": text or None, "where": where or None,
        "trash": "true" if trash else None, "task": None if task is None else id_text(parse_id(task)),
        "owner": owner or None, "span": None if span is None else _span(span), "at": None if at is None else _at(at),
        "plan": plan, "show": show,
    }  # fmt: skip
    path, may = PAGES[page]
    said = {name: str(value) for name, value in given.items() if value is not None}
    for name in said.keys() - may:
        raise InvalidArgument(f"the page {page} shows nothing by {name}: it takes {', '.join(sorted(may))}")
    if said.get("span") == SPANS[0]:
        del said["span"]
    return f"{_base(base)}/{path}" + (f"?{urlencode(said, errors='replace')}" if said else "")


def url(thing: Any, *, base: str | None = None) -> str:
    """Where the dashboard shows a queue, a snapshot, a task, a lease, a plan, or a frame of ``queue_core.frames``.

    The dashboard is of one queue: the one that its own ``QUEUE_URL`` names. Raises InvalidArgument for other things.
    """
    match thing:
        case Queue() | Snapshot():
            return dashboard_url(base=base)
        case Task() | Lease():
            return dashboard_url("task", task=thing.id, base=base)
        case Plan():
            return dashboard_url("operations", plan=thing.number or None, base=base)
        case pd.DataFrame():
            for schema, page in SHOWN_BY:
                if set(schema) <= set(thing.columns):
                    show = "Audit" if schema is AUDIT else None
                    return dashboard_url(page, show=show, base=base)
    raise InvalidArgument(f"no page of the dashboard shows a {type(thing).__name__} like this one")


def _base(given: str | None) -> str:
    base = given or os.environ.get("QUEUE_DASHBOARD") or BASE
    if not base.startswith(("http://", "https://")):
        raise InvalidArgument(f"the dashboard is at {base!r:.100}: its address begins with http:// or https://")
    return base.rstrip("/")


def _span(span: str) -> str:
    if span not in SPANS:
        raise InvalidArgument(f"span is {span!r:.100}: it is one of {', '.join(SPANS)}")
    return span


def _at(at: datetime) -> str:
    microseconds(at, "at")  # refuses a naive one
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
