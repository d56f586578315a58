"""Simulations against what is known: theory, conservation, and what the rotation promises."""

import math
import random
import statistics
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from queue_core.errors import InvalidArgument, InvalidTag
from queue_core.simulate import Limit, Workload, compare, poisson, simulate

THREE = {"a": 1.0, "b": 2.0, "c": 0.5}


def backlog(tags: dict[str, int], service: float = 1.0) -> Workload:
    """So many tasks of each tag, all there from the begin."""
    return Workload.of((0, tag, service) for tag, count in tags.items() for _ in range(count))


def served(result: Any) -> str:
    return "".join(result.serves["tag"])


# --- known results --------------------------------------------------------------------------------


def test_mean_wait_of_one_tag_and_one_worker_is_that_of_theory() -> None:
    """M/M/1: the mean wait in the queue is ρ / (μ - λ) (L. Kleinrock, Queueing Systems, vol. 1, 1975, 3.2); the
    interval of 99 % is by means of 20 batches, after a warm-up."""
    arriving, serving = 0.5, 1.0
    work = poisson(rates={"a": arriving}, service=1 / serving, seconds=86_000, seed=11)
    waits = list(simulate(work).serves["wait"])[2_000:42_000]
    assert len(waits) == 40_000
    means = [statistics.fmean(waits[begin : begin + 2_000]) for begin in range(0, 40_000, 2_000)]
    half = 2.861 * statistics.stdev(means) / math.sqrt(len(means))  # Student's t for 19 degrees of freedom
    expected = (arriving / serving) / (serving - arriving)
    assert abs(statistics.fmean(means) - expected) < half < 0.1 * expected


def test_as_many_wait_as_arrive_in_the_time_they_wait() -> None:
    """Little's law, L = λ W (J. Little, Operations Research 9(3), 1961): exact where all that came has gone."""
    serves = simulate(poisson(rates=THREE, service=0.5, seconds=300, seed=2), workers=2).serves
    steps = sorted([*((at - wait, 1) for at, wait in zip(serves["time"], serves["wait"], strict=True)),
                    *((at, -1) for at in serves["time"])])  # fmt: skip
    area, level = 0.0, 0
    for (at, step), (following, _) in pairwise(steps):
        level += step
        area += level * (following - at)
    span = steps[-1][0] - steps[0][0]
    assert area / span == pytest.approx(len(serves) / span * serves["wait"].mean())


def test_equal_tags_share_equally_in_whole_rounds() -> None:
    result = simulate(backlog({"a": 200, "b": 200, "c": 200}))
    assert served(result) == "abc" * 200
    assert result.jain == 1
    shares = result.tags_until(299)  # 300 serves at one a second
    assert list(shares["served"]) == [100, 100, 100]
    assert list(shares["difference"]) == pytest.approx([0, 0, 0])
    assert list(result.tags["worker_share"]) == pytest.approx([1 / 3] * 3)


def test_a_tag_of_twice_the_weight_has_twice_the_share() -> None:
    result = simulate(backlog({"a": 400, "b": 400}), weights={"a": 2})
    assert served(result)[:9] == "aabaabaab"
    shares = result.tags_until(299).set_index("tag")
    assert list(shares["served"][["a", "b"]]) == [200, 100]
    assert list(shares["entitled_share"][["a", "b"]]) == pytest.approx([2 / 3, 1 / 3])
    assert result.jain == 1


def test_in_one_line_a_burst_is_waited_for_and_in_rotation_a_round_at_most() -> None:
    work = Workload.of([*((0, "burst", 0.01) for _ in range(10_000)), *((n, "quiet", 0.01) for n in range(1, 6))])
    line, turns = simulate(work, policy="fifo"), simulate(work)
    waits = line.serves[line.serves["tag"] == "quiet"]["wait"]
    assert list(waits) == pytest.approx([100 - n + (n - 1) * 0.01 for n in range(1, 6)])
    assert turns.serves[turns.serves["tag"] == "quiet"]["wait"].max() <= 2 * 0.01
    change = compare(line, turns).set_index("tag")["wait_mean_change"]
    assert change["quiet"] == pytest.approx(-97.02, abs=0.03)
    assert 0 < change["burst"] <= 5 * 0.01
    assert turns.makespan == line.makespan == pytest.approx(100.05)


def test_in_one_line_shares_are_those_of_what_was_pushed() -> None:
    work = Workload.of([(n * 1e-6, "a" if n % 10 else "b", 1) for n in range(1_000)])
    line, turns = simulate(work, policy="fifo"), simulate(work)
    assert line.jain is not None
    assert line.jain < 0.7  # nine to one: (9 + 1)² / (2 (9² + 1)) = 0.61
    assert turns.jain == pytest.approx(1, abs=1e-3)  # windows of 20 serves and rounds of two


# --- what must hold for any work ------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["rotation", "fifo"])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_arrival_is_served_once(policy: Any, workers: int) -> None:
    work = poisson(rates=THREE, service=0.4, seconds=200, seed=5)
    result = simulate(work, workers=workers, policy=policy, limits={"a": Limit(max_inflight=1, min_interval=0.2)})
    came = sorted(zip(work.tag, work.at, work.service, strict=True))
    serves = result.serves
    begun = (serves["time"] - serves["wait"]) * 1e6
    gone = zip(serves["number"], begun.round().astype(int), (serves["service"] * 1e6).round().astype(int), strict=True)
    assert sorted(gone) == came
    assert list(result.tags["arrived"]) == list(result.tags["served"])
    ends: dict[int, float] = {}
    for worker, begin, took in zip(serves["worker"], serves["time"], serves["service"], strict=True):
        assert ends.get(worker, 0) <= begin + 1e-9  # no worker does two things at once
        ends[worker] = begin + took
    assert set(ends) == set(range(1, workers + 1))


def test_one_worker_that_is_always_busy_takes_as_long_as_the_work() -> None:
    numbers = random.Random(4)
    work = Workload.of((0, numbers.choice("abc"), numbers.uniform(0.1, 2)) for _ in range(500))
    for policy in ("rotation", "fifo"):
        result = simulate(work, policy=policy)  # type: ignore[arg-type]
        assert result.makespan == pytest.approx(sum(filter(None, work.service)) / 1e6)
        assert result.utilisation == pytest.approx(1)
        assert result.tags["worker_share"].sum() == pytest.approx(1)


def test_a_paused_tag_is_not_served_and_the_others_are() -> None:
    result = simulate(backlog({"a": 3, "b": 2}), limits={"a": Limit(paused=True)})
    assert served(result) == "bb"
    tags = result.tags.set_index("tag")
    assert (tags["arrived"]["a"], tags["served"]["a"]) == (3, 0)
    assert math.isnan(tags["wait_mean"]["a"])


def test_limits_hold() -> None:
    result = simulate(backlog({"a": 4, "b": 4}, 1.0), workers=3, limits={"a": Limit(max_inflight=1, min_interval=3)})
    assert list(result.serves[result.serves["tag"] == "a"]["time"]) == [0, 3, 6, 9]
    assert result.makespan == 10


def test_the_same_arguments_give_the_same_result() -> None:
    work = poisson(rates=THREE, service=0.5, seconds=50, seed=1)
    assert work == poisson(rates=THREE, service=0.5, seconds=50, seed=1)
    assert work != poisson(rates=THREE, service=0.5, seconds=50, seed=2)
    first, second = (simulate(work, weights={"b": 3}, workers=2) for _ in range(2))
    pd.testing.assert_frame_equal(first.serves, second.serves)
    pd.testing.assert_frame_equal(first.tags, second.tags)


def test_a_tag_arrives_the_same_whatever_the_others_do() -> None:
    alone, beside = (poisson(rates=rates, service=1, seconds=50) for rates in ({"a": 1.0}, {"b": 9.0, "a": 1.0}))
    assert list(alone.at) == [at for at, tag in zip(beside.at, beside.tag, strict=True) if beside.names[tag - 1] == "a"]


def test_service_times_that_are_not_known_are_drawn_from_those_of_the_tag() -> None:
    known = [*((0, "a", 1) for _ in range(5)), *((0, "b", 2) for _ in range(5))]
    work = Workload.of([*known, *((0, tag, None) for tag in "aabbc")])
    result = simulate(work, seed=7)
    assert result.assumed_services == 5
    assert "5 service times not known" in repr(result)
    services = result.serves.groupby("tag")["service"].agg(set).to_dict()
    assert (services["a"], services["b"]) == ({1.0}, {2.0})
    assert services["c"] <= {1.0, 2.0}
    unknown = Workload.of([(0, "a", 1), (0, "a", 2), *((0, "a", None) for _ in range(20))])
    once, again, other = (list(simulate(unknown, seed=seed).serves["service"]) for seed in (1, 1, 2))
    assert once == again != other


def test_service_may_be_a_function_or_one_for_each_tag() -> None:
    work = poisson(rates=THREE, service={"a": lambda numbers: 2, "b": 0.5, "c": lambda numbers: 3}, seconds=20)
    sizes = {tag: {s for n, s in zip(work.tag, work.service, strict=True) if n == tag} for tag in (1, 3)}
    assert sizes == {1: {2_000_000}, 3: {3_000_000}}


# --- where it comes from, and what cannot be meant ------------------------------------------------


def test_arrivals_come_from_a_frame_or_a_file(tmp_path: Any) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text('tag,service,time\nNA,1.5,2\n"a, b",,0.5\n,2,1\n', encoding="utf-8")
    work = Workload.from_csv(path)
    assert work.names == ("a, b", "", "NA")
    assert (list(work.at), list(work.service)) == ([500_000, 1_000_000, 2_000_000], [None, 2_000_000, 1_500_000])
    frame = pd.DataFrame({"tag": ["NA", "a, b", ""], "service": [1.5, None, 2], "time": [2, 0.5, 1]})
    assert Workload.from_frame(frame) == work
    with pytest.raises(InvalidArgument, match="has no column service: arrivals have time and service"):
        Workload.from_frame(frame.drop(columns="service"))
    path.write_text("tag,service,time\na,1,soon\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="row 1: 'soon' is no number of seconds"):
        Workload.from_csv(path)


@pytest.mark.parametrize("arrival", [(-1, "a", 1), (0, "a", -1), (math.nan, "a", 1), (0, "a", math.inf)])
def test_arrivals_that_cannot_be_meant_are_refused(arrival: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"row 2: (time|service) is .* seconds"):
        Workload.of([(0, "a", 1), arrival])
    with pytest.raises(InvalidArgument, match="row 1: tag is 7"):
        Workload.of([(0, 7, 1)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"workers": 0}, "workers is 0: it is a whole number from 1"),
        ({"workers": 1.5}, "workers is 1.5: it is a whole number"),
        ({"policy": "lifo"}, "policy is 'lifo': it is one of rotation, fifo"),
        ({"weights": {"a": -1}}, "weight of tag 'a' is -1: it is a whole number from 1"),
        ({"weights": {"b": 1}}, "weights names tag 'b', which the work has not: its 1 tags are 'a'"),
        ({"limits": {"b": Limit()}}, "limits names tag 'b', which the work has not"),
        ({"limits": {"a": 3}}, "the limit of tag 'a' is 3: give a Limit"),
        ({"limits": {"a": Limit(max_inflight=0)}}, "max_inflight of tag 'a' is 0"),
        ({"limits": {"a": Limit(min_interval=-1)}}, "min_interval of tag 'a' is -1"),
        ({"limits": {"a": Limit(paused=1)}}, "paused of tag 'a' is 1: it is True or False"),  # type: ignore[arg-type]
        ({"seed": "x"}, "seed is 'x'"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        simulate(backlog({"a": 1}), **given)


def test_work_of_which_no_service_time_is_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="none of 1 service times is known"):
        simulate(Workload.of([(0, "a", None)]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rates": {"a": -1}}, "the rate of tag 'a' is -1"),
        ({"rates": {"a": math.inf}}, "the rate of tag 'a' is inf"),
        ({"rates": {"a": 1e9}}, "arrivals are too many"),
        ({"service": 0}, "service is 0 seconds: it is above 0"),
        ({"service": {"b": 1}}, "service has nothing for tag 'a'"),
        ({"service": lambda numbers: -1}, "service is -1 seconds"),
        ({"seconds": -1}, "seconds is -1 seconds"),
    ],
)
def test_invented_work_that_cannot_be_meant_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        poisson(**({"rates": {"a": 1}, "service": 1, "seconds": 60} | given))
    with pytest.raises(InvalidTag):
        poisson(rates={"\ud800": 1}, service=1, seconds=60)
