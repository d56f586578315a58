"""Is it fair? The ring, who is next and why others are skipped, and what was served against what was due."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import data, parts
from app.chart import chart
from queue_core import Snapshot, figures
from queue_core.frames import (
    Level,
    Verdict,
    fairness_sentence,
    lagging,
    ring_frame,
    serves_frame,
    shares_frame,
    tag_label,
    upcoming,
)

WINDOW = 500  # serves
STRIP = 120
NEXT = 8
ROWS = 300
NO_JOURNAL = (
    "This store keeps no journal, so the serves of the past cannot be shown. Whose turn it is, and why others are "
    "skipped, is exact."
)


def body() -> None:
    rotation = data.rotation()
    snapshot = rotation.snapshot
    shares = None if rotation.journal is None else shares_frame(snapshot, rotation.journal, WINDOW)
    told = Verdict(level(snapshot, shares), fairness_sentence(snapshot, shares), following(snapshot))
    parts.answer(told, snapshot.at)
    if not snapshot.tags:
        parts.how_to_begin()
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**The ring**, clockwise; the pointer is the cursor, hollow tags are skipped")
        chart(figures.ring(ring_frame(snapshot)), "ring", "The rotation of tags with its cursor and who is next")
    if rotation.journal is None or shares is None:
        right.text(NO_JOURNAL)
    else:
        serves(right, shares, serves_frame(rotation.journal))
    table(snapshot)


def serves(right: DeltaGenerator, shares: pd.DataFrame, served: pd.DataFrame) -> None:
    with right.container(border=True):
        st.markdown(f"**Served in the last {min(WINDOW, len(served)):,} serves**, the line is what was due by weight")
        chart(figures.shares(parts.narrowed(shares)), "shares", "Served share against entitled share, by tag")
    with st.container(border=True):
        st.markdown(f"**The last {min(STRIP, len(served)):,} serves**, newest on the right")
        chart(figures.serves(served, STRIP), "serves", "Which tag each of the last serves went to")


def level(snapshot: Snapshot, shares: pd.DataFrame | None) -> Level:
    if not snapshot.tags:
        return Level.EMPTY
    if shares is not None and lagging(shares) is not None:
        return Level.ATTENTION
    return Level.IDLE if snapshot.ring.next is None else Level.HEALTHY


def following(snapshot: Snapshot) -> tuple[str, ...]:
    names = [tag_label(tag.name) for tag in upcoming(snapshot, NEXT)]
    return (f"Next serves, if nothing changes: {', '.join(names)}",) if names else ()


def table(snapshot: Snapshot) -> None:
    ring = parts.narrowed(ring_frame(snapshot))
    if ring.empty:
        st.text("No tag fits the filters.")
        return
    st.markdown(
        f"**The ring in order**, the first {ROWS:,} of {len(ring):,}" if len(ring) > ROWS else "**The ring in order**"
    )
    columns = {
        "number": "Position", "label": "Tag", "ahead": "From cursor", "weight": "Weight", "backlog": "Waiting",
        "why_not": "Skipped because", "last_serve": "Last serve", "since_served": "Served",
    }  # fmt: skip
    parts.grid(ring.head(ROWS), columns, key="ring", spans={"since_served": parts.ago})


parts.live(body)
