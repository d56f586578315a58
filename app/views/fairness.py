"""Is it fair? The ring, who is next and why others are skipped, and what was served against what was due."""

from datetime import datetime

import pandas as pd
import streamlit as st

from app import data, parts, past
from app.chart import chart
from queue_core import Snapshot, figures, frames
from queue_core.frames import Level, Verdict, fairness_sentence, lagging, ring_frame, serves_frame, tag_label, upcoming

WINDOW = 500  # serves
STRIP = 120
NEXT = 8
ROWS = 300
NO_JOURNAL = (
    "This store keeps no journal, so the serves of the past cannot be shown. Whose turn it is, and why others are "
    "skipped, is exact."
)
GAPS = (
    "A gap is the number of serves of the whole queue from one serve of a tag to its next, while it stayed eligible. "
    "The ideal is what a perfect rotation gives: the weights of all eligible tags over its own weight. A tag of weight "
    "2 among three of weight 1 has an ideal of 2.5. A tag whose mean stays above its ideal is served too "
    "seldom; over a few gaps it matters where in the round they began."
)
PROOF = {
    "serve": "Serve", "at": "At", "label": "Tag", "weight": "Weight", "since": "Eligible since serve", "id": "Task",
    "owner": "Owner",
}  # fmt: skip


def body() -> None:
    rotation = data.rotation()
    snapshot, journal = rotation.snapshot, rotation.journal
    shares = None if journal is None else frames.shares_frame(snapshot, journal, WINDOW)
    broken = None if journal is None else frames.turns.violations_frame(snapshot, journal)
    served, ring = serves_frame(journal or ()), ring_frame(snapshot)
    told = Verdict(
        level(snapshot, shares, broken),
        fairness_sentence(snapshot, shares),
        reasons(snapshot, ring, shares, broken, served),
    )
    parts.answer(told, snapshot.at)
    if not snapshot.tags:
        parts.how_to_begin()
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**The ring**, clockwise; the pointer is the cursor, the circle was served last, hollow is skipped")
        chart(figures.ring(ring), "ring", "The rotation of tags with its cursor, who was served last and who is next")
    if journal is None or shares is None or broken is None:
        right.text(NO_JOURNAL)
    else:
        with right.container(border=True):
            got(shares)
        strip(served)
        over_time(frames.turns.jain_frame(snapshot, journal))
        proof(broken, served)
        apart(shares)
    table(frames.turns.ring_shares_frame(ring, shares))


def then(at: datetime) -> None:
    """The serves up to a moment that is over, judged as they would have been then, and what came next."""
    found = past.rotation(at)
    if found is None:
        st.text("The journal does not reach back to this time: what is older than its newest events is not shown.")
        return
    around = frames.turns.around_frame(found.journal, at)
    past.banner(at, frames.words.then_sentence(around))
    shares = frames.turns.shares_then_frame(found.snapshot, found.journal, at, WINDOW)
    with st.container(border=True):
        st.markdown("**The serves around then**, newest on the right; the ones behind the line came later")
        chart(figures.rotation.serves_around(around), "around", "Which tag each serve before and after then went to")
    if shares.empty:
        st.text("Nothing had been served by then.")
        return
    with st.container(border=True):
        got(shares)
    apart(shares)


def level(snapshot: Snapshot, shares: pd.DataFrame | None, broken: pd.DataFrame | None) -> Level:
    if not snapshot.tags:
        return Level.EMPTY
    if broken is not None and len(broken):
        return Level.TROUBLE
    if shares is not None and lagging(shares) is not None:
        return Level.ATTENTION
    return Level.IDLE if snapshot.ring.next is None else Level.HEALTHY


def reasons(
    snapshot: Snapshot,
    ring: pd.DataFrame,
    shares: pd.DataFrame | None,
    broken: pd.DataFrame | None,
    served: pd.DataFrame,
) -> tuple[str, ...]:
    names = [tag_label(tag.name) for tag in upcoming(snapshot, NEXT)]
    following = f"Next serves, if nothing changes: {', '.join(names)}" if names else ""
    skipped = frames.words.skipped_sentence(ring)
    kept = "" if broken is None or served.empty else frames.words.guarantee_sentence(broken, len(served))
    loud = "" if shares is None or shares.empty else frames.words.noisy_sentence(shares)
    return tuple(filter(None, (following, skipped, kept, loud)))


def got(shares: pd.DataFrame) -> None:
    st.markdown(f"**Served in the last {int(shares['served'].sum()):,} serves**, the line is what was due by weight")
    chart(figures.shares(parts.narrowed(shares)), "shares", "Served share against entitled share, by tag")


def strip(served: pd.DataFrame) -> None:
    with st.container(border=True):
        st.markdown(
            f"**The last {min(STRIP, len(served)):,} serves**, newest on the right, in the colours of their tags"
        )
        chart(figures.serves(served, STRIP), "serves", "Which tag each of the last serves went to")


def over_time(windows: pd.DataFrame) -> None:
    with st.container(border=True):
        st.markdown("**Jain's index over time**, in one window of serves after the other")
        chart(figures.rotation.jain(windows), "jain", "Jain's index of fairness over the tags that stayed eligible")
        st.text(frames.words.jain_sentence(windows))


def proof(broken: pd.DataFrame, served: pd.DataFrame) -> None:
    """The serves that show where the guarantee was broken; nothing when it was kept."""
    if broken.empty:
        return
    with st.container(border=True):
        st.markdown("**The guarantee was broken**; these serves show the first time")
        st.text(frames.words.violation_sentence(broken))
        parts.grid(frames.turns.proof_frame(broken, served), PROOF, key="proof")


def apart(shares: pd.DataFrame) -> None:
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Gaps between serves**, against the ideal", help=GAPS)
        chart(figures.rotation.gaps(parts.narrowed(shares)), "gaps", "Serves from one of a tag to its next, by tag")
    with right.container(border=True):
        st.markdown("**Worker time**, against the part of the serves")
        chart(figures.rotation.worker_shares(parts.narrowed(shares)), "workers", "Part of the workers' time, by tag")
    st.text(GAPS)


def table(ring: pd.DataFrame) -> None:
    ring = parts.narrowed(ring)
    if ring.empty:
        st.text("No tag fits the filters.")
        return
    st.markdown(
        f"**The ring in order**, the first {ROWS:,} of {len(ring):,}" if len(ring) > ROWS else "**The ring in order**"
    )
    columns = {
        "number": "Position", "label": "Tag", "ahead": "From cursor", "weight": "Weight", "backlog": "Waiting",
        "why_not": "Skipped because", "last_serve": "Last serve", "since_served": "Served", "served": "Got",
        "entitled": "Due", "mean_gap": "Gap", "ideal_gap": "Ideal gap", "longest_gap": "Longest gap",
        "worker_share": "Worker time", "noisy": "Much of",
    }  # fmt: skip
    spans: dict[str, parts.Words] = {"since_served": parts.ago, "worker_share": frames.share_text}
    spans |= dict.fromkeys(("entitled", "mean_gap", "ideal_gap"), decimal)
    parts.grid(ring.head(ROWS), columns, key="ring", spans=spans)


def decimal(value: float) -> str:
    return "—" if value != value else f"{value:,.3g}"


past.page(body, then, past.journal_reach)
