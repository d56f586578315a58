"""What simulations show: frames that are defined when empty, and figures."""

import math

import pandas as pd
import pytest

from queue_core import figures
from queue_core.errors import InvalidArgument
from queue_core.figures.rotation import jain, worker_shares
from queue_core.figures.waits import waits, waits_compared
from queue_core.simulate import Workload, compare, poisson, simulate
from queue_core.simulate.result import COMPARED, SERVES, TAGS

ODD = "<b>odd</b> $x$\n" * 20


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {name: str(kind) for name, kind in frame.dtypes.items()}


@pytest.mark.parametrize("rows", [[], [(0, "a", 1), (0, ODD, 2), (1, "a", 0)]])
def test_frames_have_their_columns_with_rows_and_without(rows: list[tuple[float, str, float]]) -> None:
    result = simulate(Workload.of(rows))
    assert dtypes(result.serves) == dict(SERVES)
    assert dtypes(result.tags) == dtypes(result.tags_until(0)) == dict(TAGS)
    assert dtypes(compare(result, result)) == dict(COMPARED)
    assert len(result.serves) == len(rows)


def test_what_is_undefined_is_none() -> None:
    nothing = simulate(Workload.of([]))
    assert (nothing.jain, nothing.makespan, nothing.utilisation) == (None, None, None)
    assert repr(nothing) == "Result(rotation, 1 worker: 0 of 0 tasks served in —; workers busy — of it; Jain's index —)"
    at_once = simulate(Workload.of([(1, "a", 0)]))
    assert (at_once.makespan, at_once.utilisation) == (0, None)
    assert math.isnan(at_once.tags["worker_share"][0])
    with pytest.raises(InvalidArgument, match="seconds is -1"):
        nothing.tags_until(-1)


def test_percentiles_are_of_the_nearest_rank() -> None:
    """One worker, a second each: the n-th of a hundred waits n - 1 seconds."""
    tags = simulate(Workload.of((0, "a", 1) for _ in range(100))).tags
    names = ["wait_mean", "wait_p50", "wait_p95", "wait_p99", "longest_wait"]
    assert tags[names].iloc[0].tolist() == [49.5, 49, 94, 98, 99]


def test_tags_until_a_moment_are_those_of_that_moment() -> None:
    result = simulate(Workload.of([(0, "a", 4), (1, "b", 2), (9, "b", 5), (20, "a", 1)]))
    tags = result.tags_until(10).set_index("tag")
    assert tags.loc["a", ["arrived", "served", "worker_time"]].tolist() == [1, 1, 4]
    assert tags.loc["b", ["arrived", "served", "worker_time"]].tolist() == [2, 2, 3]
    pd.testing.assert_frame_equal(result.tags_until(1e9), result.tags)


def test_a_comparison_has_the_tags_of_both() -> None:
    first = simulate(Workload.of([(0, "a", 1), (0, "a", 1), (0, "b", 1)]))
    second = simulate(Workload.of([(0, "a", 1), (0, "c", 1)]))
    compared = compare(first, second).set_index("tag")
    assert list(compared.index) == ["a", "b", "c"]
    assert compared.loc["a", ["wait_mean_before", "wait_mean_after", "wait_mean_change"]].tolist() == [1, 0, -1]
    assert math.isnan(compared["wait_mean_after"]["b"])
    assert math.isnan(compared["served_before"]["c"])


def test_figures_are_drawn_from_nothing() -> None:
    nothing = simulate(Workload.of([]))
    for figure in (
        waits(nothing.tags), waits_compared(compare(nothing, nothing)), figures.shares(nothing.tags),
        worker_shares(nothing.tags), jain(nothing.windows),
    ):  # fmt: skip
        assert len(figure.data) == 0
        assert figure.layout.annotations[0].text.startswith("no data: ")


def test_figures_show_the_longest_waits_and_the_largest_changes() -> None:
    work = poisson(rates={f"t{n}": 0.1 * n for n in range(1, 20)} | {ODD: 3}, service=0.07, seconds=60, seed=1)
    line, turns = simulate(work, policy="fifo"), simulate(work)
    bars, lines = waits(turns.tags).data
    longest = turns.tags.sort_values("wait_mean", ascending=False).head(12)
    assert list(bars.x) == list(longest["wait_mean"])
    assert list(lines.x) == list(longest["wait_p95"])
    assert list(bars.y) == [label.replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
                            for label in longest["label"]]  # fmt: skip
    _, before, after = waits_compared(compare(line, turns), "wait_p95").data
    assert len(before.x) == 12
    assert (before.marker.symbol, after.marker.symbol) == ("circle-open", "circle")
    assert not {x - y for x, y in zip(before.x, after.x, strict=True)} & {0}
    drawn = figures.shares(turns.tags)
    assert len(drawn.data) == 2
    assert "<b>odd" not in waits(turns.tags).to_json().replace("\\u003c", "<")
