"""Leases as they are held now: the owner filter, what counts down, and giving selected ones more time."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app import acting, control, data, listings, parts, triage
from app.chart import chart
from app.listings import Listing, Since
from app.verbs import Target, Verb
from queue_core import Snapshot, State, Task, TaskNotFound, View, figures, frames
from queue_core.frames import plural, tag_label

OFFERED = 200  # owners
FOLLOWED = 12  # selected leases that are followed one by one
LONGER, LONGEST = 300, 86_400  # seconds: offered at first, and at most


# --- what is shown --------------------------------------------------------------------------------


def chosen_owner() -> str | None:
    return st.session_state.get("owner")


def owners() -> None:
    """The filter by owner: those of the leases there are, and the workers that have reported.

    It comes before all that reads it: an owner in the address is known only then.
    """
    every = listings.held(parts.chosen_tag(), parts.chosen_text(), None)  # a filter must not hide the others
    names = {frames.one_line(worker.id) for worker in every.snapshot.workers}
    names |= {*every.frame["owner"].replace("", frames.words.NOBODY)}
    if given := chosen_owner() or st.query_params.get("owner"):
        names.add(given)
    st.selectbox(
        "Owner", sorted(names, key=str.casefold)[:OFFERED], index=None, key="owner", bind="query-params",
        accept_new_options=True, placeholder="All owners", label_visibility="collapsed", width=360,
    )  # fmt: skip


def listing() -> Listing:
    """The leases that fit the filters, by expiry, with their marks."""
    return listings.leased(*_filters())


def since(shown: Listing) -> Since:
    """What has come and ended since, by the filters."""
    tag, text, owner = _filters()
    if text or owner is not None:
        return listings.since_held(tag, text, owner, shown)
    return listings.since(State.INFLIGHT, tag, shown)


def _filters() -> tuple[str | None, str, str | None]:
    return parts.chosen_tag(), parts.chosen_text(), chosen_owner()


def extent(found: Listing) -> str:
    """How many of how many are shown."""
    shown, total = len(found.frame), found.total
    of = plural(total, "lease")
    if chosen_owner() is None and not parts.chosen_text():
        return of if shown == total else f"{shown:,} of {of}, those that run out first"
    where = f"of {of}" if found.looked >= total else f"among the first {found.looked:,} of {of}"
    return f"{shown:,} {where}, by the filters"


# --- what counts down -----------------------------------------------------------------------------


def counting(selected: Sequence[Target]) -> None:
    """Ages, silences and times to expiry, of now and every two seconds; the table and its selection stay."""
    st.fragment(parts.guarded(lambda: _board(selected)), run_every=parts.pace())()


def _board(selected: Sequence[Target]) -> None:
    live = listings.held(*_filters())
    st.text(f"{frames.words.held_sentence(live.frame)} ({live.snapshot.at:%H:%M:%S} UTC)")
    left, right = st.columns([3, 2])
    with left.container(border=True):
        st.markdown("**Held now**, the oldest on top; red has run out and waits to be taken back")
        chart(figures.lease_ages(live.frame), "leases", "Age and time to expiry of the oldest leases")
    with right.container(border=True):
        st.markdown("**Ages**; amber is held by a worker that is lost or has stopped")
        chart(figures.leases.age_histogram(live.frame), "ages", "How many leases have been held for how long")
    if selected:
        followed = selected[:FOLLOWED]
        more = f", the first {FOLLOWED} of {len(selected):,}" if len(selected) > FOLLOWED else ""
        st.markdown(f"**Selected, as they are now**{more}")
        held, names = _now(followed), {target.id: tag_label(target.tag) for target in followed}
        st.container(key="followed").text(frames.words.lease_lines(names, held))


def _now(targets: Sequence[Target]) -> pd.DataFrame:
    def ask(view: View) -> tuple[list[Task], Snapshot]:
        found = []
        for target in targets:
            try:
                found.append(view.get(target.id))
            except TaskNotFound:
                continue  # it has ended
        return found, view.snapshot()

    tasks, snapshot = data.read(ask)
    held = [task for task in tasks if task.state is State.INFLIGHT]
    return frames.turns.held_frame(frames.leases_frame(held, snapshot.at), snapshot)


# --- more time ------------------------------------------------------------------------------------


def extend(targets: Sequence[Target]) -> None:
    """The button that gives selected leases more time."""
    label = f"Extend {plural(len(targets), 'lease')}" if targets else "Extend selected"
    off = not targets or not control.may("extend")
    if st.button(label, icon=":material/more_time:", key="inflight-extend", disabled=off):
        _ask(tuple(targets), control.question())


@st.dialog("Please confirm", width="medium")
def _ask(targets: tuple[Target, ...], question: int) -> None:
    st.text(f"Extend {plural(len(targets), 'lease')}?")
    st.text(
        "Each lasts so many seconds from now on, unless it lasts longer already, and is not taken back meanwhile. Its "
        "handler is not asked, and may no longer be running: then the task waits for as long. A task that has changed "
        "since it was selected is left alone."
    )
    with st.form("extend", border=False, enter_to_submit=False):
        st.number_input("Seconds from now", 1, LONGEST, LONGER, key="extend-ttl")
        st.text_input(
            "Reason", key="extend-reason", placeholder="Why (if you like): it goes to the audit", max_chars=500
        )
        with st.container(horizontal=True):
            done = st.form_submit_button(
                f"Extend {plural(len(targets), 'lease')}", icon=":material/more_time:", type="primary", key="extend-do",
                on_click=_perform, args=(targets, question),
            )  # fmt: skip
            cancelled = st.form_submit_button("Cancel", key="extend-cancel")
    if done or cancelled:
        st.rerun()


@acting.one_at_a_time
def _perform(targets: tuple[Target, ...], question: int) -> None:
    """Callback of the confirmation."""
    if control.answered(question):  # the second of two quick clicks
        return
    seconds = float(st.session_state.get("extend-ttl", LONGER))
    reason = str(st.session_state.get("extend-reason", "")).strip()
    triage.refresh(State.INFLIGHT)
    acting.do(
        lambda: control.act(Verb.EXTEND, targets, reason, ttl=seconds),
        partial(triage.performed, State.INFLIGHT, Verb.EXTEND, question),
    )
