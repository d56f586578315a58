"""What a page shows as code: to be copied, or as a notebook that shows the same by the same calls."""

import json
from collections.abc import Sequence
from typing import Any

import streamlit as st

from app import data, parts
from queue_core import QueueError
from queue_core.frames import address_text, error_line

Cells = Sequence[str]


def offer(page: str) -> None:
    """A box with the code of this page, where it has some."""
    if page not in MAKERS:
        return
    box = st.popover(
        "Code", icon=":material/code:", help="This page in a notebook, or to be copied", key="code", on_change="rerun"
    )
    if not box.open:
        return
    with box:
        try:
            cells = cells_of(page)
        except QueueError as error:
            st.text(error_line(error))
            return
        st.code("\n\n".join(cells), language="python")
        st.download_button(
            "Open in a notebook", notebook(f"{page} of a queue", cells), f"{page.lower().replace(' ', '-')}.ipynb",
            "application/x-ipynb+json", icon=":material/download:", key="notebook", on_click="ignore",
        )  # fmt: skip


def cells_of(page: str) -> Cells:
    """The code of a page with what is chosen on it, cell by cell."""
    return [_opening(), *MAKERS[page]()]


def notebook(title: str, cells: Cells) -> str:
    """A notebook of these cells, as JSON text."""
    words = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": f"# {title}"}
    codes: list[dict[str, Any]] = [
        {
            "cell_type": "code", "id": f"cell-{place}", "metadata": {}, "execution_count": None, "outputs": [],
            "source": cell,
        }
        for place, cell in enumerate(cells)
    ]  # fmt: skip
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return json.dumps({
        "cells": [words, *codes], "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
    })  # fmt: skip


# --- the cells ------------------------------------------------------------------------------------


def _opening() -> str:
    address = address_text(data.url(), 10_000)
    return (
        "import os\n\nfrom queue_core import figures, frames, open_queue\n\n"
        f'queue = open_queue(os.environ.get("QUEUE_URL", {address!r}))'
    )


def _overview() -> Cells:
    return [
        "from datetime import timedelta\n\nwith queue.view() as view:\n    snapshot = view.snapshot()\n"
        f"    series = view.series(since=snapshot.at - timedelta(seconds={parts.chosen_span():.0f}))\n"
        "frames.verdict(snapshot)",
        _narrowed("tags = frames.tags_frame(snapshot)", "tags"),
        'figures.count_by_tag(tags, "backlog", "tasks waiting")',
        "figures.oldest_wait_by_tag(tags)",
        _narrowed("by_tag = frames.series_frame(series)", "by_tag"),
        "figures.backlog_over_time(by_tag)",
        "figures.throughput(frames.series_totals_frame(series))",
    ]


def _fairness() -> Cells:
    return [
        "with queue.view() as view:\n    snapshot, journal = view.snapshot(), view.journal(limit=3_000)\n"
        "figures.ring(frames.ring_frame(snapshot))",
        _narrowed("shares = frames.shares_frame(snapshot, journal)", "shares"),
        "figures.shares(shares)",
        "figures.serves(frames.serves_frame(journal))",
    ]


def _inflight() -> Cells:
    return [_tasks("inflight", "leases_frame"), "figures.lease_ages(found)"]


def _dead() -> Cells:
    return [_tasks("dead", "dead_frame", ", reverse=True"), "figures.errors(found)"]


def _one_tag() -> Cells:
    name = parts.chosen_tag() or ""
    return [
        f"with queue.view() as view:\n    story = frames.tag_story(view, {name!r}, seconds={parts.chosen_span():.0f})\n"
        "story.tag and frames.tag_verdict(story.snapshot, story.tag)",
        "figures.backlog_over_time(story.known)",
        "figures.throughput(story.known)",
        'figures.times_histogram(story.times, "wait", story.name)',
        'figures.times_histogram(story.times, "service", story.name)',
        *(f"story.{name}" for name in ("leases", "groups", "serves", "changes")),
    ]


def _operations() -> Cells:
    return [
        "with queue.view() as view:\n    seen = frames.plans_seen(view)\n    audit = frames.audit_page(view).frame\n"
        "seen.verdict",
        "seen.frame",
        "audit",
        "frames.workers_frame(seen.snapshot)",
    ]


def _tasks(state: str, frame: str, more: str = "") -> str:
    tag = parts.chosen_tag()
    of = "" if tag is None else f", tag={tag!r}"
    return (
        "with queue.view() as view:\n    snapshot = view.snapshot()\n"
        f'    found = frames.{frame}(view.tasks("{state}"{of}, limit=500{more}), snapshot.at)\nfound'
    )


def _narrowed(made: str, name: str) -> str:
    """Code that makes a frame, of the chosen tag alone where one is."""
    tag = parts.chosen_tag()
    return f"{made}\n{name}" if tag is None else f'{made}\n{name} = {name}[{name}["tag"] == {tag!r}]\n{name}'


MAKERS = {
    "Overview": _overview, "Fairness": _fairness, "In flight": _inflight, "Dead letters": _dead, "Tag": _one_tag,
    "Operations": _operations,
}  # fmt: skip
