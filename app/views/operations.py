"""What is done to the queue, by whom, and on what it runs: plans, the audit, workers, the store."""

import importlib.metadata
import os
import platform

import streamlit as st

from app import audit, control, data, parts, plans
from queue_core import frames
from queue_core.frames import address_text, duration, one_line, storage_facts, workers_frame

WORKERS = {
    "state": "State", "host": "Host", "pid": "Process", "concurrency": "At one time", "done": "Done",
    "failed": "Failed", "silence": "Last heard of", "uptime": "Up for", "started_at": "Started", "worker": "Worker",
}  # fmt: skip
PACKAGES = ("queue_core", "lmdb", "streamlit", "pandas", "plotly")
NO_WORKER = "No worker has reported. One that is started with queue-core work does, every 10 s."


def body() -> None:
    can = data.read(lambda _: data.keeps())
    parts.live(head)
    match st.session_state.get("show"):
        case "Audit" if can.plans:
            audit.section()
        case "Workers":
            parts.part(workers)
        case "Store":
            parts.part(store)
        case _:
            plans.section()


def head() -> None:
    seen = data.plans()
    parts.answer(seen.verdict, seen.snapshot.at)


def workers() -> None:
    snapshot = data.overview()
    known = workers_frame(snapshot).rename(columns={"id": "worker"})  # an id is that of a task, and links to it
    if known.empty:
        st.text(NO_WORKER)
        return
    spans = {"silence": parts.ago, "uptime": duration}
    parts.grid(known, WORKERS, key="workers", spans=spans, alarming=known["state"] == "silent")
    st.caption(parts.clock(snapshot.at))


def store() -> None:
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Storage**")
        parts.facts(storage_facts(*data.room()))
    with left.container(border=True):
        st.markdown("**What it keeps**")
        parts.facts(frames.capability_facts(data.keeps()))
    with right.container(border=True):
        st.markdown("**Configuration**")
        parts.facts([
            ("Queue", address_text(data.url())),
            ("You are", f"{one_line(control.actor())}, in the role {control.role()}"),
            ("Redaction rules", one_line(os.environ.get("QUEUE_REDACT") or "the default ones")),
            ("Rules of the verdict", one_line(os.environ.get("QUEUE_RULES") or "the default ones")),
        ])  # fmt: skip
    with right.container(border=True):
        st.markdown("**Versions**")
        found = [(name, importlib.metadata.version(name)) for name in PACKAGES]
        parts.facts([("Python", platform.python_version()), *found, *data.read(frames.store_facts)])


parts.frozen(body)
