"""What failed for good, and why? Error groups, search, each letter in full; redrive, edit, move and purge from here."""

import streamlit as st

from app import letters, parts, planning, triage
from app.chart import chart
from app.verbs import Verb
from queue_core import QueueError, State, figures
from queue_core.frames import Level, Verdict, dead_sentence, plural

COLUMNS = {
    "label": "Tag", "age": "Died", "error": "Last error", "tried": "Attempts", "reason": "Reason",
    "payload": "Payload", "entered_at": "Died at", "id": "Task",
}  # fmt: skip
TRASHED = COLUMNS | {"age": "Since", "entered_at": "Came in at"}
VERBS = {State.DEAD: (Verb.REDRIVE, Verb.MOVE, Verb.PURGE), State.TRASH: (Verb.RESTORE,)}
EMPTY = {
    State.DEAD: "Tasks come here when their attempts are used up, or when somebody dead-letters them.",
    State.TRASH: "Dead letters that are purged, and tasks that are cancelled, can be restored from here for 7 days.",
}


def body() -> None:
    top, slot = st.container(), st.empty()  # what is chosen in them is known before anything is read
    search = slot.container()
    head = top.container()
    with top.container(horizontal=True, vertical_alignment="center", key="top"):
        news = st.container()
        trash = st.toggle("Trash", key="trash", bind="query-params", help="What was purged or cancelled")
    state = State.TRASH if trash else State.DEAD
    causes = search.container()
    with search:
        where = letters.box()
    try:
        shown, read, first = letters.shown(state, where)
    except QueueError:  # the page says what is wrong, and nothing else
        top.empty()
        slot.empty()
        raise
    with head:
        answer(state, read)
        triage.outcome(state)
        planning.following(state)
        letters.resolved()
    with news:
        triage.news(state, lambda: letters.since(state, read, where))
    if not getattr(shown.snapshot, state):
        slot.empty()
        st.text(EMPTY[state])
        return
    if not read.groups.empty:
        with causes:
            groups(read)
    letters_of(state, shown, read, where, first)


def letters_of(state: State, shown: triage.Shown, read: letters.Read, where: str, first: int) -> None:
    """The table, what can be done with what is selected or matches, and the selected one in full."""
    letters.effort(read, where)
    with st.container(horizontal=True, vertical_alignment="center", key="do"):
        bar = st.container(horizontal=True, vertical_alignment="center", key="actions")
        planning.buttons(state, read.where, VERBS[state], read.found is not None and bool(read.found.tasks))
    table, side = st.columns([3, 2])
    with table:
        extent = read.found.extent(first) if read.found else "The filter has a mistake"
        columns = COLUMNS if state is State.DEAD else TRASHED
        targets = triage.choose(state, shown, columns, {"age": parts.ago}, VERBS[state], extent=extent, bar=bar)
        letters.pager(state, read, first)
        if read.found and not read.found.tasks and not read.found.next:
            st.text("Nothing matches: make the filter wider, or clear it.")
    with side:
        if len(targets) != 1:
            st.text("Select one row to read it here, several to act on them." if not targets else "")
        triage.detail(targets)
    planning.asking()


def answer(state: State, read: letters.Read) -> None:
    snapshot = read.snapshot
    if state is State.TRASH:
        parts.answer(Verdict(Level.IDLE, f"{plural(snapshot.trash, 'task')} in the trash"), snapshot.at)
        return
    level = Level.ATTENTION if snapshot.dead else Level.IDLE
    reasons = letters.told(read) if snapshot.dead else []
    reasons += [f"{plural(snapshot.trash, 'task')} in the trash"] if snapshot.trash else []
    parts.answer(Verdict(level, dead_sentence(snapshot), tuple(reasons)), snapshot.at)


def groups(read: letters.Read) -> None:
    left, right = st.columns([3, 2])
    with left.container(border=True):
        letters.groups(read)
    with right.container(border=True):
        st.markdown("**Which errors hit which tags**" if read.grouped is None else "**Which errors hit the tag**")
        if read.heat is None:
            st.text("This store keeps no error groups, so this is not counted by tag.")
        else:
            chart(figures.errors_by_tag(read.heat), "errors", "Dead letters by error group and tag")


parts.frozen(body)
