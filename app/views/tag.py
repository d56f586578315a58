"""One tag: why it is, or is not, served; what it did over time, what it holds, what changed; its settings."""

from datetime import datetime

import streamlit as st

from app import data, parts, past, settings
from app.chart import chart, drawn
from queue_core import figures
from queue_core.frames import (
    Level,
    TagStory,
    Verdict,
    duration,
    one_line,
    plural,
    tag_label,
    tag_verdict,
    times_words,
)

SERVES = {"serve": "Serve", "at": "At", "wait": "Waited", "owner": "Worker", "id": "Task"}
LEASES = {
    "owner": "Owner", "age": "Age", "silence": "Silence", "expires_in": "Time to expiry", "attempt": "Attempt",
    "payload": "Payload", "id": "Task",
}  # fmt: skip
GROUPS = {
    "text": "Error", "count": "Dead letters here", "in_all": "In all tags", "since_last": "Last", "group": "Group",
}  # fmt: skip
CHANGES = {
    "at": "At", "actor": "Who", "action": "Action", "intent": "What", "where": "Where", "reason": "Reason",
    "outcome": "Outcome", "origin": "From",
}  # fmt: skip
NO_HISTORY = "This store keeps no history, so there are no charts over time."
NO_JOURNAL = "This store keeps no journal, so past serves are not known."
NO_AUDIT = "This store keeps no audit: what people do is in the log queue_core.audit."


def body() -> None:
    name = chosen()
    if name is not None:
        parts.live(lambda: head(name))
        settings.controls(name)
        parts.part(lambda: rest(name))


def chosen() -> str | None:
    """The exact name of the tag that is meant; None when it is not clear, which is told."""
    label, seen = st.session_state.get("tag"), data.overview()
    if label is None:
        parts.answer(Verdict(Level.IDLE, "No tag is chosen"), seen.at)
        if seen.tags:
            st.text(f"Choose one of {len(seen.tags):,} in the box above, or write its exact name there.")
        else:
            parts.how_to_begin()
        return None
    called = parts.tags_called(label)
    if len(called) > 1:
        told = f"{len(called):,} tags are called {one_line(label, 60)} here"
        parts.answer(Verdict(Level.UNKNOWN, told, ("Write the exact name of the one that is meant",)), seen.at)
        return None
    return called[0] if called else str(label)


def then(at: datetime) -> None:
    """What it did up to a moment that is over. Its settings are those of now, and are not shown."""
    name = chosen()
    if name is None:
        return
    found = past.tag(name, at, parts.chosen_span())
    past.banner(at, found.sentence)
    if not data.keeps().history:
        st.text(NO_HISTORY)
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog up to then**")
        chart(
            drawn(figures.backlog_over_time, found.known), "tag-backlog-then", "Tasks of this tag pending, up to then"
        )
    with right.container(border=True):
        st.markdown("**Throughput up to then**")
        chart(
            drawn(figures.throughput, found.known), "tag-throughput-then", "Tasks of this tag pushed, leased and done"
        )
    with st.container(border=True):
        st.markdown("**The last serves by then**, the newest on top")
        if not found.reached:
            st.text("The journal does not reach back to this time.")
        elif found.serves.empty:
            st.text("None among the 45,000 events before this time.")
        else:
            parts.grid(found.serves, SERVES, key="tag-serves-then", spans={"wait": duration})


def story_of(name: str) -> TagStory:
    return data.one_tag(name, parts.chosen_span())


def head(name: str) -> None:
    """Whether it is served, and its counts."""
    story = story_of(name)
    tag = story.tag
    if tag is None:
        gone = (
            "It was never pushed to or configured, or it was forgotten: a tag with no task and no setting is, after a "
            "while. It is known again with the next push.",
        )
        parts.answer(Verdict(Level.UNKNOWN, f"There is no tag {tag_label(name)}", gone), story.snapshot.at)
        return
    parts.answer(tag_verdict(story.snapshot, tag), story.snapshot.at)
    for column, (title, value, remark) in zip(
        st.columns(6),
        (
            ("Waiting", f"{tag.backlog:,}", f"{tag.due:,} of them due"),
            ("Oldest wait", duration(tag.oldest_wait), "of its next task"),
            ("In flight", f"{tag.inflight:,}", f"{tag.expired:,} past their time"),
            ("Scheduled", f"{tag.scheduled:,}", "for later"),
            ("Dead letters", f"{tag.dead:,}", f"{tag.trash:,} in the trash"),
            ("Done", f"{tag.totals.acked:,}", f"of {tag.totals.pushed:,} pushed"),
        ),
        strict=True,
    ):
        column.metric(title, value, remark, delta_color="off", delta_arrow="off", border=True)


def rest(name: str) -> None:
    """Charts and tables, of the moment that is shown with them."""
    story = story_of(name)
    if story.tag is None:
        return
    over_time(story)
    times(story)
    left, right = st.columns(2)
    with left.container(border=True):
        leases(story)
    with right.container(border=True):
        letters(story)
    left, right = st.columns(2)
    with left.container(border=True):
        serves(story)
    with right.container(border=True):
        changes(story)
    st.caption(parts.clock(story.snapshot.at))


def over_time(story: TagStory) -> None:
    if not data.keeps().history:
        st.text(NO_HISTORY)
        return
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog over time**")
        chart(
            drawn(figures.backlog_over_time, story.known),
            "tag-backlog",
            "Tasks of this tag that were pending, over time",
        )
    with right.container(border=True):
        st.markdown("**Throughput**")
        chart(
            drawn(figures.throughput, story.known),
            "tag-throughput",
            "Tasks of this tag pushed, leased and acknowledged a second",
        )
    if len(story.known) < len(story.series):
        st.text(
            f"Shown are {len(story.known):,} of {plural(len(story.series), 'span')}: in the others it was not among "
            "the 100 tags that are kept by name."
        )


def times(story: TagStory) -> None:
    assert story.tag is not None
    for column, title, what, measured in zip(
        st.columns(2), ("How long tasks waited", "How long attempts took"), ("wait", "service"),
        (story.tag.waits, story.tag.services), strict=True,
    ):  # fmt: skip
        with column.container(border=True):
            st.markdown(f"**{title}**: {times_words(measured)}")
            lines = (measured.p50, measured.p95)
            chart(
                drawn(figures.times_histogram, story.times, what, story.name, lines),
                f"tag-{what}",
                f"{title}, a histogram",
            )


def leases(story: TagStory) -> None:
    assert story.tag is not None
    st.markdown("**Leases**, the first to expire on top")
    if story.leases.empty:
        st.text("None: nobody works on a task of this tag now.")
        return
    spans = {"age": duration, "silence": duration, "expires_in": parts.left}
    parts.grid(story.leases, LEASES, key="tag-leases", spans=spans, alarming=story.leases["expired"])
    if len(story.leases) < story.tag.inflight:
        st.text(f"{len(story.leases):,} of {story.tag.inflight:,} are shown.")
    st.page_link("views/inflight.py", label="Act on them", icon=":material/flight_takeoff:")


def letters(story: TagStory) -> None:
    assert story.tag is not None
    st.markdown("**Dead letters**, by error")
    if story.groups.empty:
        st.text("None.")
        return
    parts.grid(story.groups, GROUPS, key="tag-groups", spans={"since_last": parts.ago})
    if story.looked < story.tag.dead:
        st.text(f"Of the newest {story.looked:,} of {story.tag.dead:,}.")
    st.page_link("views/dead.py", label="Act on them", icon=":material/report:")


def serves(story: TagStory) -> None:
    st.markdown("**Serves lately**, the newest on top")
    if not data.keeps().journal:
        st.text(NO_JOURNAL)
    elif story.serves.empty:
        st.text("None among the newest events of the queue.")
    else:
        parts.grid(story.serves, SERVES, key="tag-serves", spans={"wait": duration})


def changes(story: TagStory) -> None:
    st.markdown("**What people did to it**, the newest on top")
    if not data.keeps().plans:
        st.text(NO_AUDIT)
    elif story.changes.empty:
        st.text("Nothing, as far as the newest entries of the audit tell.")
    else:
        parts.grid(story.changes, CHANGES, key="tag-changes")


past.page(body, then, past.history_reach, parts.frozen)
