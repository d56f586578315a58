"""Tables that people act from. What is shown is frozen until they refresh; actions carry id and version of it.

A selection in a Streamlit table is a position. So the frame it was made in is kept in the session, the table's key
has the frame's generation in it, ids are taken from that frame, and the queue compares the version once more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
import streamlit as st

from app import control, data, parts
from app.control import NEEDS_REASON, Result, Target, Verb
from app.data import Listing
from queue_core import QueueError, Snapshot, State, Task, TaskNotFound, Undecodable
from queue_core.frames import duration, error_line, error_preview, one_line, plural, safe_text, tag_label

DO = {Verb.REQUEUE: "Requeue", Verb.DEAD_LETTER: "Dead-letter", Verb.REDRIVE: "Redrive"}
ICON = {
    Verb.REQUEUE: ":material/undo:",
    Verb.DEAD_LETTER: ":material/report:",
    Verb.REDRIVE: ":material/replay:",
}
MEANS = {
    Verb.REQUEUE: "Each goes back to its place and is leased again. A handler that holds one may still be running: "
    "what it finishes will be refused.",
    Verb.DEAD_LETTER: "They stop being tried; they can be redriven from the page Dead letters. A handler that holds "
    "one may still be running: what it finishes will be refused.",
    Verb.REDRIVE: "Each goes to the tail of its tag and starts again with all its attempts; its history is kept.",
}
ATTEMPTS = {State.INFLIGHT: "attempt", State.DEAD: "attempts"}  # the column of those used
PAYLOAD = 4_000  # characters shown; the download has all
NAMED = 12  # tags named in a confirmation


@dataclass(frozen=True, slots=True)
class Shown:
    """A listing as it was read, with the filters it was read for and the number of its generation."""

    listing: Listing
    filters: tuple[str | None, str]
    generation: int
    selected: tuple[int, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        return self.listing.frame

    @property
    def snapshot(self) -> Snapshot:
        return self.listing.snapshot


# --- what is shown --------------------------------------------------------------------------------


def shown(state: State) -> Shown:
    """The frozen listing of a page; read when there is none yet, or when the filters have changed."""
    filters = (parts.chosen_tag(), parts.chosen_text())
    kept: Shown | None = st.session_state.get(f"shown:{state}")
    if kept is None or kept.filters != filters:
        kept = _freeze(state, filters, ())
    return kept


def _freeze(state: State, filters: tuple[str | None, str], keep: Sequence[tuple[str, int]]) -> Shown:
    """Read and keep; ``keep`` are (id, version) of tasks that stay selected if they are still the same."""
    listing = data.listing(state, *filters)
    st.session_state["generation"] = generation = st.session_state.get("generation", 0) + 1
    pairs = list(zip(listing.frame["id"], listing.frame["version"], strict=True))
    selected = tuple(place for place, pair in enumerate(pairs) if pair in set(keep))
    frozen = Shown(listing, filters, generation, selected)
    st.session_state[f"shown:{state}"] = frozen
    return frozen


def _refresh(state: State) -> None:
    """Callback: show what is there now, and keep selected what was."""
    kept: Shown | None = st.session_state.get(f"shown:{state}")
    if kept is None:
        return
    targets = [(target.id, target.version) for target in _targets(kept, _positions(state, kept))]
    try:
        _freeze(state, kept.filters, targets)
    except QueueError:
        del st.session_state[f"shown:{state}"]  # the run that follows reads again, and says what is wrong


def news(state: State, shown: Shown) -> None:
    """What came and left since, counted every two seconds; nothing on the page moves until it is asked to."""
    with st.container(horizontal=True, vertical_alignment="center", key="news"):
        st.button("Refresh", icon=":material/refresh:", key="refresh", on_click=_refresh, args=(state,))
        st.fragment(parts.guarded(lambda: _badge(state, shown)), run_every=parts.pace())()


def _badge(state: State, shown: Shown) -> None:
    since = data.since(state, shown.filters[0], shown.listing)
    came, left = {State.INFLIGHT: ("leased", "ended"), State.DEAD: ("newer", "gone")}[state]
    if since.came or since.left:
        count = parts.number(since.came, since.came_capped)
        st.text(f"Since then: {count} {came}, {since.left:,} {left}; {since.now:,} now ({since.at:%H:%M:%S} UTC)")
    else:
        st.text(f"Nothing has changed since ({since.at:%H:%M:%S} UTC)")


# --- choosing -------------------------------------------------------------------------------------


def choose(
    state: State,
    shown: Shown,
    columns: Mapping[str, str],
    spans: Mapping[str, parts.Words],
    verbs: Sequence[Verb],
    *,
    alarming: str | None = None,
) -> list[Target]:
    """The table with what can be done above it; what is selected. ``alarming`` names the column of rows in bold."""
    bar = st.container(horizontal=True, vertical_alignment="center", key="actions")
    frame = shown.frame
    if not frame.empty:
        tried = [f"{used} of {most}" for used, most in zip(frame[ATTEMPTS[state]], frame["max_attempts"], strict=True)]
        loud = frame[alarming] if alarming else None
        parts.grid(
            frame.assign(tried=tried), columns, _key(state, shown), spans=spans, alarming=loud, selected=shown.selected
        )
    targets = _targets(shown, _positions(state, shown))
    with bar:
        _buttons(state, verbs, targets)
        st.text(_extent(shown.listing, shown.filters[1]) + (f", {len(targets):,} selected" if targets else ""))
    return targets


def _buttons(state: State, verbs: Sequence[Verb], targets: Sequence[Target]) -> None:
    """One for each verb, saying to how many it will be done."""
    for verb in verbs:
        label = f"{DO[verb]} {plural(len(targets), 'task')}" if targets else f"{DO[verb]} selected"
        if st.button(label, icon=ICON[verb], key=f"{state}-{verb}", disabled=not targets or not control.may(verb)):
            _confirm(state, verb, tuple(targets))


def _key(state: State, shown: Shown) -> str:
    return f"{state}-{shown.generation}"


def _positions(state: State, shown: Shown) -> list[int]:
    widget = st.session_state.get(_key(state, shown))
    return list(widget["selection"]["rows"]) if widget else list(shown.selected)


def _targets(shown: Shown, positions: Sequence[int]) -> list[Target]:
    rows = shown.frame.iloc[[place for place in positions if place < len(shown.frame)]]
    return [Target(*row) for row in zip(rows["id"], map(int, rows["version"]), rows["label"], strict=True)]


def _extent(listing: Listing, text: str) -> str:
    shown, total = len(listing.frame), listing.total
    if text:
        found = plural(listing.matched, "task has the text in its row", "tasks have the text in their rows")
        where = f"of {total:,}" if listing.looked >= total else f"among the first {listing.looked:,} of {total:,}"
        return f"{found}, {where}" + (f"; {shown:,} are shown" if shown < listing.matched else "")
    return f"{shown:,} of {plural(total, 'task')}" if shown < total else plural(total, "task")


# --- acting ---------------------------------------------------------------------------------------


@st.dialog("Please confirm", width="medium")
def _confirm(state: State, verb: Verb, targets: tuple[Target, ...]) -> None:
    tags = Counter(target.label for target in targets)
    st.text(f"{DO[verb]} {plural(len(targets), 'task')} of {plural(len(tags), 'tag')}?")
    largest = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
    named = [f"{label}: {count:,}" for label, count in largest]
    more = [f"and {plural(len(tags) - NAMED, 'more tag')}"] if len(tags) > NAMED else []
    st.text("\n".join(named + more))
    st.text(MEANS[verb])
    st.text("A task that has changed since it was selected is left alone.")
    with st.form("confirm", border=False, enter_to_submit=False):
        if verb in NEEDS_REASON:
            st.text_input("Reason", key="reason", placeholder="Why: it is kept with the tasks", max_chars=500)
        label = f"{DO[verb]} {plural(len(targets), 'task')}"
        kind: Literal["primary", "secondary"] = "secondary" if verb in NEEDS_REASON else "primary"
        with st.container(horizontal=True):
            done = st.form_submit_button(
                label, icon=ICON[verb], type=kind, key="confirm-do", on_click=_perform, args=(state, verb, targets)
            )
            cancelled = st.form_submit_button("Cancel", key="confirm-cancel")
    if cancelled or (done and f"outcome:{state}" in st.session_state):
        st.rerun()
    if done:
        st.text("Give a reason first: it is kept with the tasks.")


def _perform(state: State, verb: Verb, targets: tuple[Target, ...]) -> None:
    """Callback of the confirmation. Without a reason, dead-lettering does nothing."""
    st.session_state.pop(f"outcome:{state}", None)
    reason = str(st.session_state.get("reason", "")).strip()
    if verb in NEEDS_REASON and not reason:
        return
    st.session_state.pop(f"undone:{state}", None)
    st.session_state[f"outcome:{state}"] = (verb, control.act(verb, targets, reason))
    st.session_state.pop(f"shown:{state}", None)


def outcome(state: State) -> None:
    """What the last action did: all that was not done is listed, and nothing partial looks like a success."""
    taken_back(state)
    if f"outcome:{state}" not in st.session_state:
        return
    verb, done = st.session_state[f"outcome:{state}"]
    results = done.results
    undone = [result for result in results if result.outcome != "done"]
    failed = any(result.outcome == "failed" for result in results)
    tell = st.error if failed else st.warning if undone else st.success
    with st.container(key="outcome"):
        tell(
            control.summary(verb, results),
            icon=":material/error:" if failed else ":material/info:" if undone else ICON[verb],
        )
        if undone:
            parts.grid(
                _undone(undone), {"label": "Tag", "outcome": "Outcome", "detail": "Why", "id": "Task"}, key="undone"
            )
        with st.container(horizontal=True):
            if done.plan is not None:
                st.button("Undo", icon=":material/undo:", key="undo", on_click=_undo, args=(state, done.plan))
            st.button("Dismiss", key="dismiss", on_click=st.session_state.pop, args=(f"outcome:{state}", None))


def _undo(state: State, number: int) -> None:
    """Callback: give back what has not moved on since; what has is told."""
    st.session_state.pop(f"outcome:{state}", None)
    st.session_state.pop(f"shown:{state}", None)
    st.session_state[f"undone:{state}"] = control.take_back(number)


def taken_back(state: State) -> None:
    """What the last undo did."""
    told = st.session_state.get(f"undone:{state}")
    if told is not None:
        words, whole = told
        with st.container(key="undone-told"):
            (st.success if whole else st.warning)(words, icon=":material/undo:")
            st.button("Dismiss", key="dismiss-undone", on_click=st.session_state.pop, args=(f"undone:{state}", None))


def _undone(results: Sequence[Result]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "label": [result.target.label for result in results],
            "outcome": [result.outcome for result in results],
            "detail": [error_preview(result.detail) for result in results],
            "id": [result.target.id for result in results],
        }
    )


# --- reading --------------------------------------------------------------------------------------


def detail(targets: Sequence[Target]) -> None:
    """The one selected task, read now, with its full error and its payload."""
    if len(targets) != 1:
        return
    target = targets[0]
    try:
        (task, masked), at = data.task(target.id)
    except TaskNotFound as error:
        st.text(error_line(error))
        return
    with st.container(border=True, key="detail"):
        changed = "" if task.version == target.version else f"; it has changed since: it is {task.state} now"
        st.text(f"Task {task.id} of {tag_label(task.tag)}, {parts.clock(at)}{changed}")
        facts = [
            f"{task.attempts} of {task.max_attempts} attempts used in cycle {task.cycle}",
            f"{plural(task.leases, 'lease')} in all",
            f"pushed {task.created_at:%Y-%m-%d %H:%M:%S} UTC",
        ]
        if task.owner:
            held = "held" if task.state is State.INFLIGHT else "last held"
            facts.append(f"{held} by {one_line(task.owner, 80)}")
        st.text("; ".join(facts))
        if task.reason:
            st.markdown("**Reason**")
            st.code(safe_text(task.reason), language=None, wrap_lines=True)
        if task.error and task.error != task.reason:
            st.markdown("**Last error**")
            st.code(safe_text(task.error), language=None, wrap_lines=True)
        _payload(task)
        if masked:
            st.text(f"{plural(len(masked), 'field is', 'fields are')} masked: {one_line(', '.join(masked))}")
        _history(task)


def _payload(task: Task) -> None:
    stored = task.record.payload
    text = stored.decode("utf-8", "replace")
    st.markdown("**Payload**")
    if isinstance(task.payload, Undecodable):
        st.text(f"It does not decode: {one_line(task.payload.error)}")
    st.code(safe_text(text, PAYLOAD), language=None, wrap_lines=True)
    if len(text) > PAYLOAD:
        st.download_button(
            f"Download {len(stored):,} bytes", stored, f"{task.id}.json", "application/json",
            icon=":material/download:", key=f"download-{task.id}", on_click="ignore",
        )  # fmt: skip


def _history(task: Task) -> None:
    if not task.history:
        return
    st.markdown("**Attempts**")
    frame = pd.DataFrame(
        {
            "number": [attempt.number for attempt in task.history],
            "cycle": [attempt.cycle for attempt in task.history],
            "outcome": [str(attempt.outcome) for attempt in task.history],
            "owner": [one_line(attempt.owner, 80) for attempt in task.history],
            "started": [f"{attempt.started_at:%Y-%m-%d %H:%M:%S} UTC" for attempt in task.history],
            "took": [duration((attempt.ended - attempt.started) / 1e6) for attempt in task.history],
            "error": [error_preview(attempt.error) for attempt in task.history],
        }
    )
    columns = {
        "number": "Lease", "cycle": "Cycle", "outcome": "Outcome", "owner": "Owner", "started": "Started",
        "took": "Took", "error": "Error",
    }  # fmt: skip
    parts.grid(frame, columns, key=f"history-{task.id}")
