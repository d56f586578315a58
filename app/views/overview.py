"""Is it healthy? The verdict, the counts, who waits longest, and every tag with why it is not served."""

import pandas as pd
import streamlit as st

from app import data, parts
from app.chart import chart
from queue_core import Snapshot, figures
from queue_core.frames import Level, duration, plural, quantile_text, tags_frame, times_frame, verdict

ROWS = 300
NO_HISTORY = (
    "This store keeps no history, so there are no charts over time: queue-core metrics exports the present numbers for "
    "Prometheus, which keeps them."
)
SWITCHED_OFF = "History is switched off, so these charts know of nothing since: queue-core configure --history yes"


def body() -> None:
    shown = data.measured(parts.chosen_span())
    snapshot = shown.snapshot
    health = verdict(snapshot)
    parts.answer(health, snapshot.at)
    if health.level is Level.EMPTY:
        parts.how_to_begin()
        return
    counts(snapshot)
    over_time(shown)
    tags = parts.narrowed(tags_frame(snapshot))
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog by tag**")
        chart(figures.count_by_tag(tags, "backlog", "tasks waiting"), "backlog", "Tasks waiting, by tag")
    with right.container(border=True):
        st.markdown("**Oldest wait by tag**")
        chart(figures.oldest_wait_by_tag(tags), "oldest-wait", "How long the next task of each tag has waited")
    table(snapshot, tags)


def counts(snapshot: Snapshot) -> None:
    totals = snapshot.totals
    died = totals.died_nacked + totals.died_expired + totals.dead_lettered
    waiting = sum(tag.backlog > 0 for tag in snapshot.tags)
    longest = "nothing waits" if snapshot.oldest_wait is None else f"{snapshot.oldest_wait:,.3f} s"
    for column, label, value, remark in zip(
        st.columns(6),
        ("Waiting", "Oldest wait", "In flight", "Scheduled", "Dead letters", "Done"),
        (
            f"{snapshot.backlog:,}", duration(snapshot.oldest_wait), f"{snapshot.inflight:,}",
            f"{snapshot.scheduled:,}", f"{snapshot.dead:,}", f"{totals.acked:,}",
        ),
        (
            f"in {plural(waiting, 'tag')}", longest, f"{snapshot.expired_text} past their time",
            f"{snapshot.due_text} due", f"{died:,} died in all", f"of {totals.pushed:,} pushed",
        ),
        strict=True,
    ):  # fmt: skip
        column.metric(label, value, remark, delta_color="off", delta_arrow="off", border=True)


def over_time(shown: data.Overview) -> None:
    if not shown.history:
        st.text(NO_HISTORY)
        return
    if not shown.snapshot.settings.history:
        st.text(SWITCHED_OFF)
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog over time**, by tag")
        chart(figures.backlog_over_time(parts.narrowed(shown.series)), "backlog-over-time", "Tasks pending, over time")
    with right.container(border=True):
        st.markdown("**Throughput**, of the whole queue")
        chart(figures.throughput(shown.totals), "throughput", "Tasks pushed, leased, acknowledged and failed a second")


def table(snapshot: Snapshot, tags: pd.DataFrame) -> None:
    """Every tag, the largest backlog first as of when the page was opened: a refresh moves no row."""
    if tags.empty:
        st.text("No tag fits the filters.")
        return
    order: dict[int, int] = st.session_state.setdefault("shown:order", {})
    for number in tags.sort_values("backlog", ascending=False, kind="stable")["number"]:
        order.setdefault(number, len(order))
    shown = tags.loc[tags["number"].map(order).sort_values().index].head(ROWS)
    shown = shown.merge(times_frame(snapshot, shown["tag"]), on=["number", "tag", "label"], how="left")
    extent = f", {ROWS:,} of {len(tags):,}" if len(tags) > ROWS else ""
    st.markdown(f"**Tags**{extent}")
    columns = {
        "label": "Tag", "backlog": "Waiting", "oldest_wait": "Oldest wait", "why_not": "Not served because",
        "inflight": "In flight", "scheduled": "Scheduled", "dead": "Dead", "acked": "Done", "wait_p50": "Wait p50",
        "wait_p95": "Wait p95", "service_p95": "Work p95", "weight": "Weight", "since_served": "Last served",
    }  # fmt: skip
    spans = dict.fromkeys(("wait_p50", "wait_p95", "service_p95"), quantile_text)
    parts.grid(shown, columns, key="tags", spans={"oldest_wait": duration, "since_served": parts.ago, **spans})


parts.live(body)
