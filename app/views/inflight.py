"""What is being worked on? Every lease with its age, its silence and its time to expiry."""

import shlex

import streamlit as st

from app import data, parts, triage
from app.chart import chart
from app.control import Verb
from queue_core import State, figures
from queue_core.frames import Level, Verdict, duration, inflight_sentence

COLUMNS = {
    "label": "Tag", "owner": "Owner", "age": "Age", "silence": "Silence", "expires_in": "Time to expiry",
    "tried": "Attempt", "payload": "Payload", "id": "Task",
}  # fmt: skip


def body() -> None:
    shown = triage.shown(State.INFLIGHT)
    snapshot, leases = shown.snapshot, shown.frame
    level = Level.ATTENTION if snapshot.expired else Level.HEALTHY if snapshot.inflight else Level.IDLE
    parts.answer(Verdict(level, inflight_sentence(snapshot, leases)), snapshot.at)
    triage.outcome(State.INFLIGHT)
    triage.news(State.INFLIGHT, shown)
    if not snapshot.inflight:
        st.text("Leases appear here as soon as a worker takes a task. Start one:")
        st.code(f"queue-core work queue_core.census:measure --url {shlex.quote(data.url())}", language="bash")
        return
    with st.container(border=True):
        st.markdown("**Leases**, the oldest on top; red has run out and waits to be taken back")
        chart(figures.lease_ages(leases), "leases", "Age and time to expiry of the oldest leases")
    spans = {"age": duration, "silence": duration, "expires_in": parts.left}
    verbs = (Verb.REQUEUE, Verb.DEAD_LETTER)
    triage.detail(triage.choose(State.INFLIGHT, shown, COLUMNS, spans, verbs, alarming="expired"))


parts.frozen(body)
