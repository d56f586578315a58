"""What is being worked on? Every lease with its age, its silence, its time to expiry, and who holds it."""

import shlex

import streamlit as st

from app import data, leases, parts, triage
from app.verbs import Verb
from queue_core import State
from queue_core.frames import Level, Verdict, duration, inflight_sentence

COLUMNS = {
    "label": "Tag", "owner": "Owner", "mark": "Mark", "age": "Age", "silence": "Silence",
    "expires_in": "Time to expiry", "tried": "Attempt", "payload": "Payload", "id": "Task",
}  # fmt: skip


def body() -> None:
    top = st.container()
    row = st.container(horizontal=True, vertical_alignment="center", key="holders")
    with row:
        leases.owners()
    filters = (parts.chosen_tag(), parts.chosen_text(), leases.chosen_owner())
    shown = triage.frozen(State.INFLIGHT, filters, leases.listing)
    snapshot, held = shown.snapshot, shown.frame
    wrong = bool(snapshot.expired) or (held["mark"] != "").any()
    level = Level.ATTENTION if wrong else Level.HEALTHY if snapshot.inflight else Level.IDLE
    with top:
        parts.answer(Verdict(level, inflight_sentence(snapshot, held)), snapshot.at)
        triage.outcome(State.INFLIGHT)
    with row:
        triage.news(State.INFLIGHT, lambda: leases.since(shown.listing))
    if not snapshot.inflight:
        st.text("Leases appear here as soon as a worker takes a task. Start one:")
        st.code(f"queue-core work queue_core.census:measure --url {shlex.quote(data.url())}", language="bash")
        return
    above = st.container()
    st.markdown("**Leases**, those that run out first on top; the numbers are of the time on top of the page")
    bar = st.container(horizontal=True, vertical_alignment="center", key="actions")
    spans = {"age": duration, "silence": duration, "expires_in": parts.left}
    verbs = (Verb.REQUEUE, Verb.DEAD_LETTER)
    told = leases.extent(shown.listing)
    targets = triage.choose(
        State.INFLIGHT, shown, COLUMNS, spans, verbs, alarming="expired", extent=told, bar=bar, more=leases.extend
    )  # fmt: skip
    with above:
        leases.counting(targets)
    triage.detail(targets)


parts.frozen(body)
