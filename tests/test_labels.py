"""Two tags with one label are still two: in frames, in figures, and in what is offered."""

import plotly.graph_objects as go
import pytest
from alike import twins

from queue_core import Queue, figures, frames
from queue_core.figures import waits
from queue_core.figures.rotation import gaps, worker_shares
from queue_core.simulate import Workload, compare, simulate


@pytest.fixture
def queue(queue: Queue, clock) -> Queue:
    """Both tags, and the name that stands for all others: each has pending, leased, acked and dead tasks."""
    tags = [*twins(), "8 other tags"]
    queue.push_many([(n, tag) for n in range(8) for tag in tags])
    for n in range(15):
        lease = queue.lease(owner="w", ttl=900)
        clock.advance(1)
        if n < 6:
            queue.dead_letter(lease, "no route to host")
        elif n < 12:
            queue.ack(lease)
    queue.push_many([(0, f"tag {n:02}") for n in range(17)])
    clock.advance(20)
    return queue


def drawn(queue: Queue) -> dict[str, go.Figure]:
    """All figures with an axis of tags."""
    snapshot, journal = queue.snapshot(), queue.journal(limit=1_000)
    tags, shares = frames.tags_frame(snapshot), frames.shares_frame(snapshot, journal)
    times = frames.times_frame(snapshot)
    return {
        "backlog": figures.count_by_tag(tags),
        "oldest wait": figures.oldest_wait_by_tag(tags),
        "shares": figures.shares(shares),
        "gaps": gaps(shares),
        "worker shares": worker_shares(shares),
        "serves": figures.serves(frames.serves_frame(journal)),
        "times": figures.times_by_tag(times),
    }


def test_the_two_have_one_label_and_nobody_else_has_it() -> None:
    one, other = twins()
    assert one != other
    label = frames.tag_label(one)
    assert frames.tag_label(other) == label
    assert frames.tag_label(label) != label  # a tag that is named as they are called is called otherwise
    assert frames.told_apart([one, "acme"]) == {one: label, "acme": "acme"}
    assert frames.told_apart([one, other, "acme"]) == {one: one, other: other, "acme": "acme"}


def test_in_frames_they_are_two(queue: Queue) -> None:
    tags = frames.tags_frame(queue.snapshot()).set_index("tag")
    assert list(tags.loc[list(twins()), "pending"]) == [3, 3]
    with queue.view() as view:
        heat = frames.heat_frame(view, view.groups())
    assert list(heat.set_index("tag").loc[list(twins()), "count"]) == [2, 2]


def test_on_an_axis_they_are_two(queue: Queue) -> None:
    for name, figure in drawn(queue).items():
        traces = [trace for trace in figure.data if trace.type == "bar" or trace.mode == "markers"]
        rows = {row for trace in traces for row in trace.y}
        assert len([row for row in rows if row.startswith(frames.tag_label(twins()[0]))]) == 2, name
        assert figure.layout.yaxis.type == "category", name
        assert {note.y for note in figure.layout.annotations} <= rows, name


def test_the_bar_of_all_others_is_that_of_no_tag(queue: Queue) -> None:
    bars = figures.count_by_tag(frames.tags_frame(queue.snapshot())).data[0]
    assert len(set(bars.y)) == len(bars.y) == 13
    assert sum(bars.x) == queue.snapshot().backlog
    assert [row.strip("\N{ZERO WIDTH SPACE}") for row in bars.y].count("8 other tags") == 2


def test_in_the_heatmap_they_are_two_columns(queue: Queue) -> None:
    with queue.view() as view:
        heat = frames.heat_frame(view, view.groups())
    figure = figures.errors_by_tag(heat)
    assert list(figure.data[0].z[0]) == [2, 2, 2]
    assert len(figure.layout.xaxis.ticktext) == 3


def test_over_time_they_are_two_bands(queue: Queue) -> None:
    series = frames.series_frame(queue.series(), fields=["pending"])
    bands = figures.backlog_over_time(series).data
    alike = [band for band in bands if band.name == frames.tag_label(twins()[0])]
    assert len(alike) == 2
    assert {band.line.color for band in alike} == {figures.tag_colour(name) for name in twins()}


def test_in_a_simulation_they_are_two() -> None:
    work = [(0, tag, 1) for tag in twins() for _ in range(3)]
    before, after = simulate(Workload.of(work), workers=1), simulate(Workload.of(work), workers=2)
    for figure in (waits(before.tags), figures.waits_compared(compare(before, after))):
        rows = figure.data[-1].y
        assert len(set(rows)) == len(rows) == 2
        assert {note.y for note in figure.layout.annotations} == set(rows)


def test_both_are_offered_by_their_names(queue: Queue) -> None:
    offered = frames.busiest(queue.snapshot(), 200)
    assert set(twins()) < set(offered)
    assert len(set(offered)) == len(offered)
