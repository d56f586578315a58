"""The page In flight: what counts down, marks of lost workers, the owner filter, and more time for selected leases."""

from datetime import timedelta

import pytest
from driving import MAIN, again, press, select, visit, words
from streamlit.testing.v1 import AppTest

from app import data, listings
from queue_core import Item, Queue, State, figures, frames
from queue_core.frames import turns
from queue_core.ledger import WorkerRecord
from queue_core.task import SECOND, microseconds


def hold(queue: Queue, name: str, owner: str, ttl: float = 600) -> str:
    task = queue.push({"name": name}, tag=name)
    lease = queue.lease(ttl=ttl, owner=owner)
    assert lease is not None
    assert lease.id == task.id
    return task.id


def report(queue: Queue, id: str, ago: float, stopped: bool = False) -> None:
    seen = microseconds(queue.snapshot().at, "at") - round(ago * SECOND)
    queue._store.report(WorkerRecord(id, "host", 1, seen, seen, seen if stopped else 0))


def test_lost_and_stopped_workers_are_marked(queue: Queue) -> None:
    for name in ("good", "lost", "gone", "unknown"):
        hold(queue, name, f"w-{name}")
    report(queue, "w-good", 5), report(queue, "w-lost", 31), report(queue, "w-gone", 5, stopped=True)
    app = visit("inflight")
    assert not app.exception
    marks = app.dataframe[0].value.set_index("label")["mark"]
    assert dict(marks) == {"good": "", "lost": "worker lost", "gone": "worker stopped", "unknown": ""}
    assert "2 are held by workers that are lost or have stopped" in words(app)


def test_an_expired_lease_is_marked(queue: Queue) -> None:
    hold(queue, "late", "w", ttl=0.001)
    table = visit("inflight").dataframe[0].value
    assert list(table["mark"]) == ["ran out"]


def test_the_owner_filter_narrows_and_comes_from_the_address(queue: Queue) -> None:
    ids = [hold(queue, f"t{n}", f"worker-{n % 2}") for n in range(6)]
    data.forget()
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    app.switch_page("views/inflight.py").run()
    app.selectbox(key="owner").set_value("worker-1").run()
    assert not app.exception
    assert sorted(app.dataframe[0].value["id"]) == sorted(ids[1::2])
    assert "3 of 6 leases, by the filters" in words(app)
    app = AppTest.from_file(str(MAIN), default_timeout=60).run().switch_page("views/inflight.py")
    app.query_params["owner"] = "nobody like that"
    app.run()
    assert not app.exception
    assert "0 of 6 leases, by the filters" in words(app)


def test_what_changes_since_is_counted_by_the_filter(queue: Queue) -> None:
    ids = [hold(queue, f"t{n}", f"worker-{n % 2}") for n in range(6)]
    app = visit("inflight")
    app.selectbox(key="owner").set_value("worker-1").run()
    assert "Nothing has changed since, by the filter" in words(app)
    hold(queue, "more", "worker-0")
    assert "Nothing has changed since, by the filter" in words(again(app))
    hold(queue, "new", "worker-1")
    queue.requeue(ids[1])
    queue.cancel(ids[1])
    assert "Since then: 1 leased, 1 ended of those shown, by the filter; 7 now in all" in words(again(app))
    press(app, "refresh")
    app.text_input(key="text").set_value("t5").run()
    queue.requeue(ids[5])
    assert queue.lease(owner="worker-1", ttl=900).id == ids[5]
    assert "Since then: 1 leased, 1 ended of those shown, by the filter" in words(again(app))  # another lease of it


def test_what_is_above_the_table_is_of_after_an_action(queue: Queue) -> None:
    hold(queue, "a", "w", ttl=500), hold(queue, "b", "w")
    app = visit("inflight")
    assert "Next to run out: a, " in words(app)
    select(app, 0)
    press(app, "inflight-requeue")
    press(app, "confirm-do")
    assert "Next to run out: b, " in words(app)


def test_the_filter_never_moves_a_selection_to_another_task(queue: Queue) -> None:
    ids = [hold(queue, f"t{n}", f"worker-{n % 2}") for n in range(6)]
    app = visit("inflight")
    select(app, 0)
    app.selectbox(key="owner").set_value("worker-1").run()
    assert app.button(key="inflight-requeue").disabled
    select(app, 2)
    chosen = app.dataframe[0].value["id"].iloc[2]
    assert chosen in ids[1::2]
    press(app, "refresh")
    assert app.button(key="inflight-requeue").label == "Requeue 1 task"
    press(app, "inflight-requeue")
    press(app, "confirm-do")
    assert queue.get(chosen).state is State.PENDING
    assert queue.counts().inflight == 5


def test_no_owner_can_be_filtered_by(queue: Queue) -> None:
    hold(queue, "acme", "")
    hold(queue, "b", "w")
    app = visit("inflight")
    app.selectbox(key="owner").set_value(frames.words.NOBODY).run()
    assert list(app.dataframe[0].value["label"]) == ["acme"]


def test_numbers_count_down_and_the_table_stays(queue: Queue) -> None:
    id = hold(queue, "acme", "w1")
    app = visit("inflight")
    select(app, 0)
    assert f"acme … {id[-4:]}: silent for " in words(app)
    table = app.dataframe[0].value
    queue.requeue(id)
    again(app)
    assert f"acme … {id[-4:]}: it is not in flight any more" in words(app)
    assert list(app.dataframe[0].value["id"]) == list(table["id"])
    assert not app.exception


def test_more_time(queue: Queue) -> None:
    one, other = (hold(queue, name, "w", ttl=5) for name in ("a", "b"))
    before = queue.get(one).expires_at
    app = visit("inflight")
    assert app.button(key="inflight-extend").disabled
    select(app, 0)
    chosen = app.dataframe[0].value["id"].iloc[0]
    press(app, "inflight-extend")
    assert "Extend 1 lease?" in words(app)
    assert "may no longer be running" in words(app)
    app.number_input(key="extend-ttl").set_value(900)
    press(app, "extend-do")
    assert not app.exception
    assert [box.value for box in app.success] == ["1 task extended"]
    assert queue.get(chosen).expires_at - before > timedelta(seconds=800)
    assert queue.get(other if chosen == one else one).expires_at - before < timedelta(seconds=10)
    assert [entry.action for entry in queue.audit()] == ["extend"]


def test_a_lease_that_ended_is_not_extended(queue: Queue) -> None:
    id = hold(queue, "a", "w")
    app = visit("inflight")
    select(app, 0)
    press(app, "inflight-extend")
    queue.requeue(id)
    press(app, "extend-do")
    assert "0 of 1 task extended; 1 skipped" in words(app)
    assert queue.get(id).state is State.PENDING


def test_a_viewer_extends_nothing(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(queue, "a", "w")
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    app = visit("inflight")
    select(app, 0)
    assert app.button(key="inflight-extend").disabled


def test_many_leases_say_how_many_are_shown(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "ROWS", 200)
    queue.push_many([Item("x", f"t{n % 7}") for n in range(344)])
    queue.lease_many(344, owner="w")
    assert "200 of 344 leases, those that run out first" in words(visit("inflight"))


def test_odd_owners(queue: Queue) -> None:
    for n, owner in enumerate(("<b>x</b>", "a\0b", "\u202eevil", "o" * 1_000, "👍🏽", "**bold**")):
        hold(queue, f"t{n}", owner)
    app = visit("inflight")
    assert not app.exception
    assert len(app.dataframe[0].value) == 6
    assert len(app.selectbox(key="owner").options) == 6
    for owner in app.selectbox(key="owner").options:
        app.selectbox(key="owner").set_value(owner).run()
        assert not app.exception
        assert len(app.dataframe[0].value) == 1


# --- frames and figures ---------------------------------------------------------------------------


def test_the_histogram_counts_each_lease_once(queue: Queue) -> None:
    for n in range(5):
        hold(queue, f"t{n}", "lost" if n < 2 else "w", ttl=60)
    report(queue, "lost", 100)
    snapshot = queue.snapshot()
    held = frames.leases_frame(queue.tasks("inflight"), snapshot.at)
    held = turns.held_frame(held.assign(expired=[False, False, False, False, True]), snapshot)
    good, lost, over = figures.leases.age_histogram(held).data
    assert (sum(good.y), sum(lost.y), sum(over.y)) == (2, 2, 1)
    aged = held.assign(age=[0.5, 5.0, 59.0, 100_000.0, 700.0])
    bars = figures.leases.age_histogram(aged).data
    assert [sum(counts) for counts in zip(*(bar.y for bar in bars), strict=True)] == [1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1]


def test_nothing_is_drawn_from_nothing(queue: Queue) -> None:
    snapshot = queue.snapshot()
    held = turns.held_frame(frames.leases_frame([], snapshot.at), snapshot)
    assert str(held["mark"].dtype) == "str"
    assert figures.leases.age_histogram(held).layout.annotations[0].text.startswith("no data: ")
    assert frames.words.held_sentence(held) == "No lease is held now"
