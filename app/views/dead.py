"""What failed for good, and why? Dead letters, newest first, with reason and error; redrive them from here."""

import streamlit as st

from app import parts, triage
from app.chart import chart
from app.control import Verb
from queue_core import State, figures
from queue_core.frames import Level, Verdict, dead_sentence, tags_frame

COLUMNS = {
    "label": "Tag", "age": "Died", "reason": "Reason", "error": "Last error", "tried": "Attempts",
    "payload": "Payload", "entered_at": "Died at", "id": "Task",
}  # fmt: skip


def body() -> None:
    shown = triage.shown(State.DEAD)
    snapshot = shown.snapshot
    level = Level.ATTENTION if snapshot.dead else Level.IDLE
    parts.answer(Verdict(level, dead_sentence(snapshot)), snapshot.at)
    triage.outcome(State.DEAD)
    triage.news(State.DEAD, shown)
    if not snapshot.dead:
        st.text("Tasks come here when their attempts are used up, or when somebody dead-letters them.")
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Dead letters by tag**")
        tags = parts.narrowed(tags_frame(snapshot))
        chart(figures.count_by_tag(tags, "dead", "dead letters"), "dead", "Dead letters, by tag")
    with right.container(border=True):
        st.markdown("**Errors of those shown**")
        chart(figures.errors(shown.frame), "errors", "The most frequent errors among the dead letters shown")
    triage.detail(triage.choose(State.DEAD, shown, COLUMNS, {"age": parts.ago}, (Verb.REDRIVE,)))


parts.frozen(body)
