"""Tables that people act from. What is shown is frozen until they refresh; actions carry id and version of it.

A selection in a Streamlit table is a position. So the frame it was made in is kept in the session, the table's key
has the frame's generation in it, ids are taken from that frame, and the queue compares the version once more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import acting, control, parts, verbs
from app import detail as reader
from app.listings import Listing, Since
from app.verbs import NEEDS_REASON, Outcome, Result, Target, Undone, Verb
from queue_core import Snapshot, State
from queue_core.frames import error_preview, plural, tag_label, told_apart

DO = {
    Verb.REQUEUE: "Requeue", Verb.DEAD_LETTER: "Dead-letter", Verb.REDRIVE: "Redrive", Verb.PURGE: "Purge",
    Verb.RESTORE: "Restore", Verb.CANCEL: "Cancel", Verb.MOVE: "Move", Verb.EXTEND: "Extend",
}  # fmt: skip
ICON = {
    Verb.REQUEUE: ":material/undo:",
    Verb.DEAD_LETTER: ":material/report:",
    Verb.REDRIVE: ":material/replay:",
    Verb.PURGE: ":material/delete:",
    Verb.RESTORE: ":material/restore_from_trash:",
    Verb.CANCEL: ":material/cancel:",
    Verb.MOVE: ":material/drive_file_move:",
    Verb.EXTEND: ":material/more_time:",
}
MEANS = {
    Verb.REQUEUE: "Each goes back to its place and is leased again. A handler that holds one may still be running: "
    "what it finishes will be refused.",
    Verb.DEAD_LETTER: "They stop being tried; they can be redriven from the page Dead letters. A handler that holds "
    "one may still be running: what it finishes will be refused.",
    Verb.REDRIVE: "Each goes to the tail of its tag and starts again with all its attempts; its history is kept.",
    Verb.PURGE: "They leave the dead letters for the trash. From there they can be restored for 7 days; then they are "
    "gone for good.",
    Verb.RESTORE: "Each goes back to where it came from.",
    Verb.CANCEL: "They will not be run. They go to the trash, from where they can be restored for 7 days.",
    Verb.MOVE: "Each goes to the tail of the other tag, and stays what it is: a dead letter stays dead.",
    Verb.EXTEND: "The lease lasts longer, so that nobody else is given the task meanwhile.",
}
NEWS = {  # what came and left
    State.INFLIGHT: ("leased", "ended"), State.DEAD: ("newer", "gone"), State.TRASH: ("newer", "gone"),
}  # fmt: skip
NAMED = 12  # tags named in a confirmation


@dataclass(frozen=True, slots=True)
class Shown:
    """A listing as it was read, with the filters it was read for and the number of its generation."""

    listing: Listing
    filters: tuple[object, ...]
    generation: int
    selected: tuple[int, ...] = ()

    @property
    def frame(self) -> pd.DataFrame:
        return self.listing.frame

    @property
    def snapshot(self) -> Snapshot:
        return self.listing.snapshot


# --- what is shown --------------------------------------------------------------------------------


def frozen(state: State, filters: tuple[object, ...], read: Callable[[], Listing]) -> Shown:
    """What ``read`` gave when these filters were chosen; rows that were selected before a refresh still are, if they
    are the same."""
    kept: Shown | None = st.session_state.get(f"shown:{state}")
    if kept is not None and kept.filters == filters:
        return kept
    listing = read()
    st.session_state["generation"] = generation = st.session_state.get("generation", 0) + 1
    keep = set(st.session_state.pop(f"shown:keep:{state}", ()))
    pairs = zip(listing.frame["id"], listing.frame["version"], strict=True)
    selected = tuple(place for place, pair in enumerate(pairs) if pair in keep)
    st.session_state[f"shown:{state}"] = fresh = Shown(listing, filters, generation, selected)
    return fresh


def refresh(state: State) -> None:
    """Callback: show what is there now, and keep selected what was."""
    kept: Shown | None = st.session_state.pop(f"shown:{state}", None)
    if kept is not None:
        targets = _targets(kept, _positions(state, kept))
        st.session_state[f"shown:keep:{state}"] = [(target.id, target.version) for target in targets]


def news(state: State, since: Callable[[], Since]) -> None:
    """What came and left since, counted every two seconds; nothing on the page moves until it is asked to."""
    with st.container(horizontal=True, vertical_alignment="center", key="news"):
        st.button("Refresh", icon=":material/refresh:", key="refresh", on_click=refresh, args=(state,))
        st.fragment(parts.guarded(lambda: _badge(state, since())), run_every=parts.pace())()


def _badge(state: State, since: Since) -> None:
    came, left = NEWS[state]
    if since.came or since.left:
        which = " of those shown, by the filter" if since.narrowed else ""
        every = " in all" if since.narrowed else ""
        news = f"{parts.number(since.came, since.came_capped)} {came}, {since.left:,} {left}{which}"
        st.text(f"Since then: {news}; {since.now:,} now{every} ({since.at:%H:%M:%S} UTC)")
    else:
        st.text(f"Nothing has changed since{', by the filter' if since.narrowed else ''} ({since.at:%H:%M:%S} UTC)")


# --- choosing -------------------------------------------------------------------------------------


def choose(
    state: State,
    shown: Shown,
    columns: Mapping[str, str],
    spans: Mapping[str, parts.Words],
    verbs: Sequence[Verb],
    *,
    extent: str,
    alarming: str | None = None,
    bar: DeltaGenerator | None = None,
    more: Callable[[Sequence[Target]], None] = lambda targets: None,
) -> list[Target]:
    """The table with what can be done above it, or in ``bar``; what is selected. ``more`` draws further buttons.
    ``extent`` says how many of how many are shown; ``alarming`` names the column of rows in bold."""
    bar = bar or st.container(horizontal=True, vertical_alignment="center", key="actions")
    frame = shown.frame
    if not frame.empty:
        used = frame["attempt" if state is State.INFLIGHT else "attempts"]
        tried = [f"{one} of {most}" for one, most in zip(used, frame["max_attempts"], strict=True)]
        loud = frame[alarming] if alarming else None
        parts.grid(
            frame.assign(tried=tried), columns, _key(state, shown), spans=spans, alarming=loud, selected=shown.selected,
            widths={"error": 375},
        )  # fmt: skip
    targets = _targets(shown, _positions(state, shown))
    with bar:
        buttons(state, verbs, targets)
        more(targets)
        st.text(extent + (f", {len(targets):,} selected" if targets else ""))
    return targets


def buttons(place: str, verbs: Sequence[Verb], targets: Sequence[Target]) -> None:
    """One for each verb, saying to how many it will be done."""
    for verb in verbs:
        label = f"{DO[verb]} {plural(len(targets), 'task')}" if targets else f"{DO[verb]} selected"
        if st.button(label, icon=ICON[verb], key=f"{place}-{verb}", disabled=not targets or not control.may(verb)):
            _confirm(place, verb, tuple(targets), control.question())


def _key(state: State, shown: Shown) -> str:
    return f"{state}-{shown.generation}"


def _positions(state: State, shown: Shown) -> list[int]:
    widget = st.session_state.get(_key(state, shown))
    return list(widget["selection"]["rows"]) if widget else list(shown.selected)


def _targets(shown: Shown, positions: Sequence[int]) -> list[Target]:
    rows = shown.frame.iloc[[place for place in positions if place < len(shown.frame)]]
    return [Target(*row) for row in zip(rows["id"], map(int, rows["version"]), rows["tag"], strict=True)]


# --- acting ---------------------------------------------------------------------------------------


@st.dialog("Please confirm", width="medium")
def _confirm(place: str, verb: Verb, targets: tuple[Target, ...], question: int) -> None:
    tags = Counter(target.tag for target in targets)
    names = told_apart(tags)
    st.text(f"{DO[verb]} {plural(len(targets), 'task')} of {plural(len(tags), 'tag')}?")
    largest = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
    named = [f"{names[tag]}: {count:,}" for tag, count in largest]
    more = [f"and {plural(len(tags) - NAMED, 'more tag')}"] if len(tags) > NAMED else []
    st.text("\n".join(named + more))
    st.text(MEANS[verb])
    st.text("A task that has changed since it was selected is left alone.")
    with st.form("confirm", border=False, enter_to_submit=False):
        if verb is Verb.MOVE:
            st.text_input("To the tag", key="to-tag", placeholder="Its exact name; a new one is made known")
        if verb is Verb.EXTEND:
            st.number_input("Seconds from now", min_value=1, max_value=86_400, value=60, key="ttl")
        why = "Why: it is kept with the tasks" if verb in NEEDS_REASON else "Why (if you like): it goes to the audit"
        st.text_input("Reason", key="reason", placeholder=why, max_chars=500)
        label = f"{DO[verb]} {plural(len(targets), 'task')}"
        kind: Literal["primary", "secondary"] = "secondary" if verb in NEEDS_REASON else "primary"
        with st.container(horizontal=True):
            done = st.form_submit_button(
                label, icon=ICON[verb], type=kind, key="confirm-do", on_click=_perform,
                args=(place, verb, targets, question),
            )  # fmt: skip
            cancelled = st.form_submit_button("Cancel", key="confirm-cancel")
    if cancelled or (done and f"outcome:{place}" in st.session_state):
        st.rerun()
    if done:
        st.text("Give a reason first: it is kept with the tasks." if verb in NEEDS_REASON else "Name the tag first.")


@acting.one_at_a_time
def _perform(place: str, verb: Verb, targets: tuple[Target, ...], question: int) -> None:
    """Callback of the confirmation. Without what the verb needs, a reason or a tag, nothing is done."""
    if control.answered(question):  # the second of two quick clicks
        return
    reason = str(st.session_state.get("reason", "")).strip()
    tag = str(st.session_state.get("to-tag", "")) if verb is Verb.MOVE else None
    ttl = st.session_state.get("ttl") if verb is Verb.EXTEND else None
    if (verb in NEEDS_REASON and not reason) or tag == "":
        st.session_state.pop(f"outcome:{place}", None)
        return
    acting.do(lambda: control.act(verb, targets, reason, ttl, tag), partial(performed, place, verb, question))


def performed(place: str, verb: Verb, question: int, done: Outcome) -> None:
    """Tell what came of an answer; the table is read anew."""
    control.answer(question)
    st.session_state.pop(f"undone:{place}", None)
    st.session_state.pop(f"shown:{place}", None)
    st.session_state[f"outcome:{place}"] = (verb, done)


def outcome(place: str) -> None:
    """What the last action did: all that was not done is listed, and nothing partial looks like a success."""
    taken_back(place)
    reader.edited()
    if f"outcome:{place}" not in st.session_state:
        return
    verb, done = st.session_state[f"outcome:{place}"]
    results = done.results
    undone = [result for result in results if result.outcome != "done"]
    failed = any(result.outcome == "failed" for result in results)
    tell = st.error if failed else st.warning if undone else st.success
    with st.container(key="outcome"):
        tell(
            verbs.summary(verb, results),
            icon=":material/error:" if failed else ":material/info:" if undone else ICON[verb],
        )
        if undone:
            parts.grid(
                _undone(undone), {"label": "Tag", "outcome": "Outcome", "detail": "Why", "id": "Task"}, key="undone"
            )
        with st.container(horizontal=True):
            if done.plan is not None:
                st.button(
                    "Undo", icon=":material/undo:", key="undo", on_click=_undo, args=(place, done.plan),
                    disabled=not control.may("undo"),
                )  # fmt: skip
            st.button("Dismiss", key="dismiss", on_click=st.session_state.pop, args=(f"outcome:{place}", None))


@acting.one_at_a_time
def _undo(place: str, number: int) -> None:
    """Callback: give back what has not moved on since; what has is told."""
    told = st.session_state.get(f"outcome:{place}")
    if told is not None and told[1].plan == number:  # else it is the second of two quick clicks
        acting.do(lambda: control.take_back(number), partial(_given_back, place))


def _given_back(place: str, undone: Undone) -> None:
    st.session_state.pop(f"outcome:{place}", None)
    st.session_state.pop(f"shown:{place}", None)
    st.session_state[f"undone:{place}"] = undone


def taken_back(place: str) -> None:
    """What the last undo did."""
    told = st.session_state.get(f"undone:{place}")
    if told is not None:
        with st.container(key="undone-told"):
            (st.success if told.whole else st.warning)(told.words, icon=":material/undo:")
            if told.why:
                st.text("\n".join(told.why))
            with st.container(horizontal=True):
                st.button("Undo", icon=":material/undo:", key="undone", disabled=True)  # a second click hits nothing
                st.button(
                    "Dismiss", key="dismiss-undone", on_click=st.session_state.pop, args=(f"undone:{place}", None)
                )


def _undone(results: Sequence[Result]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tag": [result.target.tag for result in results],
            "label": [tag_label(result.target.tag) for result in results],
            "outcome": [result.outcome for result in results],
            "detail": [error_preview(result.detail) for result in results],
            "id": [result.target.id for result in results],
        }
    )


# --- reading --------------------------------------------------------------------------------------


def detail(targets: Sequence[Target]) -> None:
    """The one selected task, read now; and its payload, while it is edited."""
    if len(targets) == 1:
        reader.panel(targets[0])
    reader.editing()
