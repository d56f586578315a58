"""Is it fair? The ring, who is next and why others are skipped, and what was served against what was due."""

from datetime import datetime

import pandas as pd
import streamlit as st

from app import data, parts, past, whole
from app.chart import chart, drawn
from app.data import Judged, Rotation
from app.shared import Made
from queue_core import Snapshot, figures, frames
from queue_core.frames import (
    Level,
    Verdict,
    duration,
    fairness_sentence,
    lagging,
    tag_label,
    upcoming,
)

STRIP = 120
NEXT = 8
ROWS = 100
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
THEN = {
    "number": "Position", "label": "Tag", "ahead": "From cursor", "weight": "Weight", "left": "Left of its turn",
    "why_not": "Hollow because", "last_serve": "Last serve", "since_served": "Served", "served": "Got",
    "entitled": "Due", "worker_share": "Worker time",
}  # fmt: skip
_told: Made[Verdict] = Made()


def body() -> None:
    rotation = data.rotation()
    snapshot, ring, served, judged = rotation.snapshot, rotation.ring, rotation.served, rotation.judged
    parts.answer(_told.get(rotation, "verdict", lambda: verdict(rotation)), snapshot.at)
    if not snapshot.tags:
        parts.how_to_begin()
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**The ring**, clockwise; the pointer is the cursor, the circle was served last, hollow is skipped")
        chart(
            drawn(figures.ring, ring),
            "ring",
            "The rotation of tags with its cursor, who was served last and who is next",
        )
    if judged is None:
        right.text(NO_JOURNAL)
    else:
        with right.container(border=True):
            got(judged.shares)
        strip(served)
        over_time(judged.windows)
        proof(judged.broken, served)
        whole.check()
        apart(judged.shares)
    table(ring)


def then(at: datetime) -> None:
    """The ring and the serves up to a moment that is over, judged as they would have been then, and what came next."""
    found = past.rotation(at)
    if found is None:
        st.text("The journal does not reach back to this time: what is older than its oldest event is not known.")
        return
    around = frames.turns.around_frame(found.events, at)
    past.banner(at, frames.words.then_sentence(around, found.unseen))
    shares, ring = frames.shares_then_frame(found, data.WINDOW), frames.ring_then_frame(found)
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**The ring as it was**; the pointer is the cursor, the circle was served last, the large dot next")
        chart(
            drawn(figures.rotation.ring_then, ring), "ring-then", "The rotation then: its cursor, who was last and next"
        )
    with right.container(border=True):
        if shares.empty:
            st.text("Nothing had been served by then, as far as the journal reaches.")
        else:
            got(shares)
    st.text(frames.then.ring_then_sentence(found, ring))
    with st.container(border=True):
        st.markdown("**The serves around then**, newest on the right; the ones behind the line came later")
        chart(
            drawn(figures.rotation.serves_around, around),
            "around",
            "Which tag each serve before and after then went to",
        )
    if not shares.empty:
        apart(shares)
    table_then(frames.turns.ring_shares_frame(ring, shares))


def table_then(ring: pd.DataFrame) -> None:
    ring = parts.narrowed(ring)
    if ring.empty:
        st.text("No tag that was known then fits the filters.")
        return
    st.markdown(f"**The ring in its order then**, {min(ROWS, len(ring)):,} of {len(ring):,} tags")
    spans: dict[str, parts.Words] = {"since_served": before, "worker_share": frames.share_text, "entitled": decimal}
    parts.grid(ring.head(ROWS), THEN, key="ring-then", spans=spans)


def before(seconds: float) -> str:
    return "—" if seconds != seconds else f"{duration(seconds)} before"


def verdict(rotation: Rotation) -> Verdict:
    snapshot, judged = rotation.snapshot, rotation.judged
    sentence = fairness_sentence(snapshot, None if judged is None else judged.shares)
    return Verdict(level(snapshot, judged), sentence, reasons(rotation))


def level(snapshot: Snapshot, judged: Judged | None) -> Level:
    if not snapshot.tags:
        return Level.EMPTY
    if judged is not None and len(judged.broken):
        return Level.TROUBLE
    if judged is not None and lagging(judged.shares) is not None:
        return Level.ATTENTION
    return Level.IDLE if snapshot.ring.next is None else Level.HEALTHY


def reasons(rotation: Rotation) -> tuple[str, ...]:
    names = [tag_label(tag.name) for tag in upcoming(rotation.snapshot, NEXT)]
    following = f"Next serves, if nothing changes: {', '.join(names)}" if names else ""
    skipped = frames.words.skipped_sentence(rotation.ring)
    judged, serves = rotation.judged, len(rotation.served)
    kept = frames.words.guarantee_sentence(judged.broken, serves) if judged is not None and serves else ""
    loud = frames.words.noisy_sentence(judged.shares) if judged is not None and len(judged.shares) else ""
    return tuple(filter(None, (following, skipped, kept, loud)))


def got(shares: pd.DataFrame) -> None:
    st.markdown(f"**Served in the last {int(shares['served'].sum()):,} serves**, the line is what was due by weight")
    chart(drawn(figures.shares, parts.narrowed(shares)), "shares", "Served share against entitled share, by tag")


def strip(served: pd.DataFrame) -> None:
    with st.container(border=True):
        st.markdown(
            f"**The last {min(STRIP, len(served)):,} serves**, newest on the right, in the colours of their tags"
        )
        chart(drawn(figures.serves, served, STRIP), "serves", "Which tag each of the last serves went to")


def over_time(windows: pd.DataFrame) -> None:
    with st.container(border=True):
        st.markdown("**Jain's index over time**, in one window of serves after the other")
        chart(
            drawn(figures.rotation.jain, windows), "jain", "Jain's index of fairness over the tags that stayed eligible"
        )
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
        chart(
            drawn(figures.rotation.gaps, parts.narrowed(shares)), "gaps", "Serves from one of a tag to its next, by tag"
        )
    with right.container(border=True):
        st.markdown("**Worker time**, against the part of the serves")
        chart(
            drawn(figures.rotation.worker_shares, parts.narrowed(shares)),
            "workers",
            "Part of the workers' time, by tag",
        )
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
