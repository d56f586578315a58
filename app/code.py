"""What a page shows as code: to be copied, or as a notebook that shows the same by the same calls.

The code has in it what is chosen on the page: filters, span of time, the moment that is looked back to, the page of a
long list. What a person or a task has named goes into it as a Python literal.
"""

import json
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import streamlit as st

from app import audit, data, health, leases, letters, listings, parts, past, plans
from queue_core import QueueError, State, frames
from queue_core.frames import address_text, error_line

Cells = Sequence[str]
RULES = ("QUEUE_REDACT", "QUEUE_RULES")  # files that say what is masked, and what is healthy
SEARCHED = ("id", "label", "owner", "payload")  # what a text is looked for in, of a lease
ROWS = 300  # rows of the tables of tags
SPANS = "from datetime import UTC, datetime, timedelta\n\nfrom queue_core.spans import fitting\n\n"
HISTORY = (
    "def history(seconds):\n"
    '    """By tag and of the whole queue, in whole spans up to now."""\n'
    f"    step = fitting(seconds, {data.POINTS})\n"
    "    begun = datetime.fromtimestamp(snapshot.at.timestamp() // step * step, UTC)\n"
    "    series = view.series(since=begun - timedelta(seconds=seconds))\n"
    '    by_tag = frames.series_frame(series, step=step, fields=["pending"])\n'
    "    return by_tag, frames.series_totals_frame(series, step=step)\n\n\n"
)
NOT_KEPT = 'raise ValueError("The journal does not reach back to this time.")'


def offer(page: str) -> None:
    """A box with the code of this page."""
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
        if not cells:
            st.text("Choose first what the page is to show.")
            return
        st.code("\n\n".join(cells), language="python")
        st.download_button(
            "Open in a notebook", notebook(page, cells), f"{page.lower().replace(' ', '-')}.ipynb",
            "application/x-ipynb+json", icon=":material/download:", key="notebook", on_click="ignore",
        )  # fmt: skip


def cells_of(page: str) -> Cells:
    """The code of a page with what is chosen on it, cell by cell; none while it shows nothing. Raises QueueError."""
    at = past.chosen() if page in past.PAGES else None
    cells = MAKERS[page]() if at is None else THEN[page](at)
    return [_opening(), *cells] if cells else []


def notebook(page: str, cells: Cells) -> str:
    """A notebook of these cells, as JSON text. Queues and tasks show themselves in it."""
    about = f"# {page}\n\nWhat the page shows, by the same calls. What it says of now is of when a cell runs."
    words = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": about}
    codes: list[dict[str, Any]] = [
        {
            "cell_type": "code", "id": f"cell-{place}", "metadata": {}, "execution_count": None, "outputs": [],
            "source": cell,
        }
        for place, cell in enumerate(["%load_ext queue_core.notebook", *cells])
    ]  # fmt: skip
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return json.dumps({
        "cells": [words, *codes], "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
    })  # fmt: skip


# --- what all have --------------------------------------------------------------------------------


def _opening() -> str:
    """The queue, and the rules that the page goes by."""
    address = data.with_queue(lambda queue: queue.url)
    known = repr(address) if address_text(address, 10_000) == address else 'os.environ["QUEUE_URL"]'
    rules = [(name, os.path.abspath(path)) for name in RULES if (path := os.environ.get(name))]
    lines = ["import os\n"] if rules or "environ" in known else []
    lines += ["from queue_core import figures, frames", "from queue_core.notebook import opened\n"]
    lines += [f'os.environ["{name}"] = {path!r}' for name, path in rules]
    return "\n".join([*lines, f"queue = opened({known})"])


def _at(at: datetime) -> str:
    return f"at = datetime.fromisoformat({at.isoformat()!r})"


def _narrowed(made: str, name: str, others: bool = False) -> str:
    """Code that makes a frame of tags, and of it what fits the filters. ``others``: it has rows of no tag, too."""
    tag, text = parts.chosen_tag(), parts.chosen_text().casefold()
    lines = [made]
    if others and (tag is not None or text):
        lines.append(f'{name} = {name}[~{name}["other"]]')
    if tag is not None:
        lines.append(f'{name} = {name}[{name}["tag"] == {tag!r}]')
    if text:
        lines.append(f'{name} = {name}[{name}["label"].str.casefold().str.contains({text!r}, regex=False)]')
    return "\n".join([*lines, name])


# --- Overview -------------------------------------------------------------------------------------


def _overview() -> Cells:
    seconds = parts.chosen_span()
    lines = [
        "with queue.view() as view:", "    snapshot = view.snapshot()", f"    by_tag, totals = history({seconds:.0f})"
    ]  # fmt: skip
    recent = "None"
    if data.keeps().history and data.overview().settings.history:
        within = frames.rules.configured().deaths_within
        recent = "totals"
        if not within <= seconds <= health.FINE:
            recent = "recent"
            lines.append(f"    _, recent = history({max(within, data.RECENT):g})")
    return [
        SPANS + "\n" + HISTORY + "\n".join([*lines, "snapshot"]),
        "rules = frames.rules.configured()\n"
        f"judged = frames.rules.judge(snapshot, rules, now=snapshot.at, room=queue.storage(), recent={recent})\n"
        "judged.verdict",
        "frames.rules.rules_frame(judged)",
        _narrowed("tags = frames.tags_frame(snapshot)", "tags"),
        'figures.count_by_tag(tags, "backlog", "tasks waiting")',
        "figures.oldest_wait_by_tag(tags)",
        _narrowed("spans = by_tag", "spans", True),
        "figures.backlog_over_time(spans)",
        "figures.throughput(totals)",
        f'shown = tags.sort_values("backlog", ascending=False, kind="stable").head({ROWS})\n'
        'times = frames.times_frame(snapshot, shown["tag"])\n'
        'shown.merge(times, on=["number", "tag", "label"], how="left")',
    ]


def _overview_then(at: datetime) -> Cells:
    return [
        f"{SPANS}{_at(at)}\n\n\n{HISTORY}"
        "with queue.view() as view:\n    snapshot = view.snapshot()\n"
        f"    by_tag, _ = history({parts.chosen_span():.0f})\n"
        "    then = view.series(since=at - timedelta(seconds=10), until=at)\n"
        "    turns = frames.turns_then(view, at)\n"
        "totals = frames.series_totals_frame(then).tail(1)\ntotals",
        "around = frames.turns.around_frame(turns.events if turns else [], at)\nframes.words.then_sentence(around)",
        _narrowed(f"tags = frames.series.then_frame(frames.series_frame(then, fields={past.FIELDS}))", "tags", True),
        'alone = tags[~tags["other"]]\n'
        'figures.count_by_tag(alone.dropna(subset="backlog"), "backlog", "tasks pending")',
        'figures.count_by_tag(alone, "leased", "leases")',
        _narrowed("spans = by_tag", "spans", True),
        "drawn = figures.backlog_over_time(spans)\n"
        'ended = [row.start + timedelta(seconds=row.seconds) for row in totals.itertuples()]\n'
        "figures.series.marked(drawn, ended[0]) if ended and len(drawn.data) else drawn",
    ]  # fmt: skip


# --- Fairness -------------------------------------------------------------------------------------


def _fairness() -> Cells:
    if not data.keeps().journal:
        return [
            "with queue.view() as view:\n    snapshot = view.snapshot()\nframes.fairness_sentence(snapshot, None)",
            "ring = frames.ring_frame(snapshot)\nfigures.ring(ring)",
            _narrowed("table = frames.turns.ring_shares_frame(ring, None)", "table"),
        ]
    return [
        "with queue.view() as view:\n"
        f"    snapshot, journal = view.snapshot(), view.journal(limit={data.EVENTS})\n"
        f"shares = frames.shares_frame(snapshot, journal, {data.WINDOW})\n"
        "frames.fairness_sentence(snapshot, shares)",
        "[frames.tag_label(tag.name) for tag in frames.upcoming(snapshot, 8)]",
        "ring = frames.ring_frame(snapshot)\nfigures.ring(ring)",
        _narrowed("got = shares", "got"),
        "figures.shares(got)",
        "served = frames.serves_frame(journal)\nfigures.serves(served, 120)",
        "windows = frames.turns.jain_frame(snapshot, journal)\nfigures.rotation.jain(windows)",
        "frames.words.jain_sentence(windows)",
        "broken = frames.turns.violations_frame(snapshot, journal)\n"
        "frames.words.guarantee_sentence(broken, len(served))",
        "frames.words.noisy_sentence(shares)",
        "figures.rotation.gaps(got)",
        "figures.rotation.worker_shares(got)",
        _narrowed("table = frames.turns.ring_shares_frame(ring, shares)", "table"),
    ]


def _fairness_then(at: datetime) -> Cells:
    return [
        f"from datetime import datetime\n\n{_at(at)}\n"
        "with queue.view() as view:\n    then = frames.turns_then(view, at)\n"
        f"if then is None:\n    {NOT_KEPT}\n"
        "around = frames.turns.around_frame(then.events, at)\nframes.words.then_sentence(around)",
        f"shares, ring = frames.shares_then_frame(then, {data.WINDOW}), frames.ring_then_frame(then)\n"
        "figures.rotation.ring_then(ring)",
        "frames.then.ring_then_sentence(then, ring)",
        _narrowed("got = shares", "got"),
        "figures.shares(got)",
        "figures.rotation.serves_around(around)",
        "figures.rotation.gaps(got)",
        "figures.rotation.worker_shares(got)",
        _narrowed("table = frames.turns.ring_shares_frame(ring, shares)", "table"),
    ]


# --- tasks ----------------------------------------------------------------------------------------


def _inflight() -> Cells:
    tag, text, owner = parts.chosen_tag(), parts.chosen_text(), leases.chosen_owner()
    name = "" if owner in (None, frames.words.NOBODY) else str(owner)
    word = (text or name).casefold()
    of = "" if tag is None else f", tag={tag!r}"
    lines = [
        "with queue.view() as view:",
        "    snapshot = view.snapshot()",
        f'    tasks = view.tasks("inflight"{of}, limit={listings.SEARCHED if word else listings.ROWS})',
        "found = frames.leases_frame(tasks, snapshot.at)",
    ]
    if word:
        lines.append("said = " + r' + "\n" + '.join(f'found["{name}"]' for name in SEARCHED))
        lines.append(f"found = found[said.str.casefold().str.contains({word!r}, regex=False)].head({listings.ROWS})")
    lines.append("held = frames.turns.held_frame(found, snapshot)")
    if owner is not None:
        lines.append(f'held = held[held["owner"] == {name!r}].reset_index(drop=True)')
    return [
        "\n".join([*lines, "frames.inflight_sentence(snapshot, held)"]),
        "held",
        "frames.words.held_sentence(held)",
        "figures.lease_ages(held)",
        "figures.leases.age_histogram(held)",
    ]


def _dead() -> Cells:
    state = State.TRASH if st.session_state.get("trash") else State.DEAD
    tag, where = parts.chosen_tag(), str(st.session_state.get("where") or "").strip()
    kept = data.keeps().plans
    grouped = tag if kept else None
    pages = st.session_state.get(f"{letters.PAGES}:{state}")
    begins = pages[1][-1][0] if pages is not None and pages[0] == (tag, where) else None
    more = "" if begins is None else f", after={begins!r}"
    lines = [
        f"where = {frames.filter_of(state, where, tag=tag)!r}",
        "with queue.view() as view:",
        "    snapshot = view.snapshot()",
        f'    found = frames.newest(view, State("{state}"), where{more}, limit={letters.PAGE})',
    ]
    if state is State.TRASH:
        said = 'frames.plural(snapshot.trash, "task") + " in the trash"'
    else:
        lines.append(f"    groups, _ = frames.groups_of(view, snapshot, {grouped!r})")
        said = "frames.dead_sentence(snapshot)"
    heat = kept and state is State.DEAD
    if heat:
        lines.append(f"    heat = frames.heat_frame(view, groups[:{letters.GROUPS}])")
    cells = ["from queue_core import State\n\n" + "\n".join([*lines, said])]
    if state is State.DEAD:
        cells += [f"known = frames.groups_frame(groups[:{letters.GROUPS}], snapshot.at)\nknown"]
        cells += ["frames.groups_sentence(known)"]
    if heat:
        only = "" if grouped is None else f'[heat["tag"] == {grouped!r}]'
        cells += [f"figures.errors_by_tag(heat{only})"]
    return [*cells, "frames.dead_frame(found.tasks, snapshot.at)"]


def _task() -> Cells:
    id = str(st.session_state.get("task") or "").strip()
    if not id:
        return []
    return [
        f"with queue.view() as view:\n    story = frames.task_story(view, {id!r})\nstory.sentence",
        "story.task",
        "story.story",
        "tried = frames.timeline_frame(story.task, story.at)\ntried",
        "figures.attempts(tried)",
        "frames.edits_frame(story.task)",
    ]


# --- Tag ------------------------------------------------------------------------------------------


def _meant() -> str | None:
    """The exact name of the tag that the page is of; None where it is of none."""
    label = st.session_state.get("tag")
    return None if label is None or len(parts.tags_called(label)) > 1 else parts.chosen_tag()


def _one_tag() -> Cells:
    name = _meant()
    if name is None:
        return []
    return [
        f"with queue.view() as view:\n    story = frames.tag_story(view, {name!r}, {parts.chosen_span():.0f})\n"
        "story.tag and frames.tag_verdict(story.snapshot, story.tag)",
        'tags = frames.tags_frame(story.snapshot)\ntags[tags["tag"] == story.name]',
        "figures.backlog_over_time(story.known)",
        "figures.throughput(story.known)",
        "story.tag and (frames.times_words(story.tag.waits), frames.times_words(story.tag.services))",
        *(
            f"lines = (story.tag.{times}.p50, story.tag.{times}.p95) if story.tag else ()\n"
            f'figures.times_histogram(story.times, "{what}", story.name, lines)'
            for what, times in (("wait", "waits"), ("service", "services"))
        ),
        *(f"story.{name}" for name in ("leases", "groups", "serves", "changes")),
    ]


def _one_tag_then(at: datetime) -> Cells:
    name = _meant()
    if name is None:
        return []
    return [
        f"from datetime import datetime\n\n{_at(at)}\nwith queue.view() as view:\n"
        f"    then = frames.tag_then(view, {name!r}, at, {parts.chosen_span():.0f})\nthen.sentence",
        "figures.backlog_over_time(then.known)",
        "figures.throughput(then.known)",
        "then.serves",
    ]


# --- Operations -----------------------------------------------------------------------------------


def _operations() -> Cells:
    actor, action, text = (st.session_state.get(name) for name in ("actor", "action", "entry"))
    asked = frames.AuditFilter(str(actor or "").strip(), action, str(text or "").strip())
    pages: audit.Pages | None = st.session_state.get(audit.PAGES)
    before = pages.begins[-1] if pages is not None and pages.asked == asked else None
    page = "" if before is None else f", before={before}"
    cells = [
        f"asked = frames.AuditFilter({asked.actor!r}, {asked.action!r}, {asked.text!r})\n"
        "with queue.view() as view:\n    seen = frames.plans_seen(view)\n"
        f"    audit = frames.audit_page(view, asked{page}, limit={audit.PIECE}).frame\n"
        "    store = frames.store_facts(view)\nseen.verdict",
        "seen.frame",
        "audit",
        "frames.workers_frame(seen.snapshot)",
        "store",
    ]
    number = st.query_params.get("plan", "")
    if number.isascii() and number.isdigit():
        came = st.session_state.get(f"came-{number}")
        after = st.session_state.get(f"shown:after-{number}-{came}", [0])[-1]
        only = f"verdict={came!r}, after={after}, limit={plans.PIECE}"
        cells += [
            f"with queue.view() as view:\n    plan = frames.plan_seen(view, {int(number)}, {only})\nplan.verdict",
            "plan.facts",
            "plan.results",
        ]
    return cells


MAKERS: dict[str, Callable[[], Cells]] = {
    "Overview": _overview, "Fairness": _fairness, "In flight": _inflight, "Dead letters": _dead, "Tag": _one_tag,
    "Task": _task, "Operations": _operations,
}  # fmt: skip
THEN: dict[str, Callable[[datetime], Cells]] = {
    "Overview": _overview_then, "Fairness": _fairness_then, "Tag": _one_tag_then,
}  # fmt: skip
