"""Is it healthy? The verdict, the counts, who waits longest, and every tag with why it is not served."""

from dataclasses import dataclass, field
from datetime import datetime

import pandas as pd
import streamlit as st

from app import data, health, parts, past
from app.chart import chart, drawn
from app.shared import Made
from queue_core import Snapshot, figures, frames
from queue_core.frames import Level, duration, plural, quantile_text, times_frame

ROWS = 100
JUDGED = {
    "rule": "Rule", "level": "Judged", "value": "Now", "attention": "Attention from", "trouble": "Trouble from",
    "about": "What it looks at",
}  # fmt: skip
TUNING = (
    "The first rule that speaks, trouble before attention, gives the sentence on top; all others that speak are listed "
    "below it. Thresholds come from the TOML file that QUEUE_RULES names, else these defaults hold. Deaths are counted "
    "over deaths_within; of data older than stale nothing is said. For example: [oldest_wait] attention = 600"
)
NO_HISTORY = (
    "This store keeps no history, so there are no charts over time: queue-core metrics exports the present numbers for "
    "Prometheus, which keeps them."
)
SWITCHED_OFF = "History is switched off, so these charts know of nothing since: queue-core configure --history yes"


@dataclass(eq=False, slots=True, weakref_slot=True)
class Order:
    """In which order one session lists the tags: the place of each, by its number."""

    places: dict[int, int] = field(default_factory=dict)


_listed: Made[pd.DataFrame] = Made()


def body() -> None:
    shown = data.measured(parts.chosen_span())
    snapshot = shown.snapshot
    if judged(shown) is Level.EMPTY:
        parts.how_to_begin()
        return
    counts(snapshot)
    over_time(shown)
    tags = parts.narrowed(data.tags(shown))
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog by tag**")
        chart(drawn(figures.count_by_tag, tags, "backlog", "tasks waiting"), "backlog", "Tasks waiting, by tag")
    with right.container(border=True):
        st.markdown("**Oldest wait by tag**")
        chart(drawn(figures.oldest_wait_by_tag, tags), "oldest-wait", "How long the next task of each tag has waited")
    table(snapshot, tags)


def then(at: datetime) -> None:
    """Backlog and shares as they were at the end of a bucket that is over."""
    found = past.overview(at, parts.chosen_span())
    if found is None:
        st.text("Nothing is known of this time: history did not reach that far.")
        return
    shown = data.measured(parts.chosen_span())
    past.banner(found.at, found.served)
    past_counts(found.totals)
    with st.container(border=True):
        st.markdown("**Backlog over time**, by tag; the line is the time that is shown")
        over = figures.backlog_over_time(parts.narrowed(shown.series))
        marked = figures.series.marked(over, found.at) if len(over.data) else over
        chart(marked, "backlog-then", "Tasks pending over time, with a line at the time that is shown")
    tags = parts.narrowed(found.tags)
    alone = tags[~tags["other"]]
    left, right = st.columns(2)
    with left.container(border=True):
        st.markdown("**Backlog by tag**, as it was")
        chart(
            drawn(figures.count_by_tag, alone.dropna(subset="backlog"), "backlog", "tasks pending"),
            "then",
            "Backlog then",
        )
    with right.container(border=True):
        st.markdown("**Leases in this bucket**, by tag")
        chart(drawn(figures.count_by_tag, alone, "leased", "leases"), "then-leased", "Leases in the bucket, by tag")
    columns = {
        "label": "Tag", "backlog": "Pending", "oldest_wait": "Oldest wait", "inflight": "In flight",
        "scheduled": "Scheduled", "dead": "Dead", "leased": "Leased in it", "share": "Share of leases",
    }  # fmt: skip
    parts.grid(tags.head(ROWS), columns, key="then", spans={"oldest_wait": duration, "share": frames.share_text})


def past_counts(totals: pd.Series) -> None:
    for column, label, value in zip(
        st.columns(5),
        ("Pending", "Oldest wait", "In flight", "Scheduled", "Dead letters"),
        (
            f"{totals['pending']:,}", duration(totals["oldest"]), f"{totals['inflight']:,}",
            f"{totals['scheduled']:,}", f"{totals['dead']:,}",
        ),
        strict=True,
    ):  # fmt: skip
        column.metric(label, value, border=True)


def judged(shown: data.Overview) -> Level:
    """The verdict with its reasons, and how it was come by."""
    found = health.of(shown)
    parts.answer(found.verdict, found.snapshot.at)
    if found.judgement is not None:
        with st.expander("How this is judged", icon=":material/rule:", key="rules"):
            st.text(TUNING)
            table = frames.rules.rules_frame(found.judgement)
            st.table(table[list(JUDGED)].rename(columns=JUDGED), border="horizontal", hide_index=True)
    return found.verdict.level


def counts(snapshot: Snapshot) -> None:
    totals = snapshot.totals
    died = totals.died
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
        chart(
            drawn(figures.backlog_over_time, parts.narrowed(shown.series)),
            "backlog-over-time",
            "Tasks pending, over time",
        )
    with right.container(border=True):
        st.markdown("**Throughput**, of the whole queue")
        chart(
            drawn(figures.throughput, shown.totals),
            "throughput",
            "Tasks pushed, leased, acknowledged and failed a second",
        )


def table(snapshot: Snapshot, tags: pd.DataFrame) -> None:
    """Every tag, the largest backlog first as of when the page was opened: a refresh moves no row."""
    if tags.empty:
        st.text("No tag fits the filters.")
        return
    order: Order = st.session_state.setdefault("shown:order", Order())
    shown = _listed.get(tags, order, lambda: listed(snapshot, tags, order))
    extent = f", {ROWS:,} of {len(tags):,}" if len(tags) > ROWS else ""
    st.markdown(f"**Tags**{extent}")
    columns = {
        "label": "Tag", "backlog": "Waiting", "oldest_wait": "Oldest wait", "why_not": "Not served because",
        "inflight": "In flight", "scheduled": "Scheduled", "dead": "Dead", "acked": "Done", "wait_p50": "Wait p50",
        "wait_p95": "Wait p95", "service_p95": "Work p95", "weight": "Weight", "since_served": "Last served",
    }  # fmt: skip
    spans = dict.fromkeys(("wait_p50", "wait_p95", "service_p95"), quantile_text)
    parts.grid(shown, columns, key="tags", spans={"oldest_wait": duration, "since_served": parts.ago, **spans})


def listed(snapshot: Snapshot, tags: pd.DataFrame, order: Order) -> pd.DataFrame:
    """The first of the tags in this order, with their times. Tags that it has not are put behind the others."""
    for number in tags.sort_values("backlog", ascending=False, kind="stable")["number"]:
        order.places.setdefault(number, len(order.places))
    first = tags.loc[tags["number"].map(order.places).sort_values().index].head(ROWS)
    return first.merge(times_frame(snapshot, first["tag"]), on=["number", "tag", "label"], how="left")


past.page(body, then, past.history_reach)
