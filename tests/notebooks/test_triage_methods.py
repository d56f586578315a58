"""Triage without a browser: nothing is written until it is armed; then it plans, runs and undoes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_core import InvalidArgument, InvalidFilter, NotPermitted, Queue, open_queue
from queue_core.control import Operator
from queue_core.frames import planned_words
from queue_core.notebook import triage
from queue_core.notebook.controls import Box

pytestmark = pytest.mark.notebook


@pytest.fixture(params=["memory", "lmdb"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: Callable[[], int]) -> Iterator[Queue]:
    url = "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/queue"
    with open_queue(url, clock=clock) as queue:
        for number in range(6):
            task = queue.push({"n": number, "token": "abcdefgh12345678"}, tag=("acme", "bolt")[number % 2])
            queue.dead_letter(task.id, "timeout" if number < 4 else "<script>alert(1)</script>")  # type: ignore[arg-type]
        queue.push("waits", tag="acme")
        yield queue
        assert queue.check() == []


def everything(queue: Queue) -> tuple[Any, ...]:
    """All that is stored and the number of the last commit; on disk, every byte."""
    scheme, _, path = queue.url.partition("://")
    data = Path(path, "data.mdb").read_bytes() if scheme == "lmdb" else b""
    with queue.view() as view:
        records = list(view.reader.inventory().records)
        journal = [(event.number, event.entry) for event in view.journal(limit=1_000_000)]
        return queue.mark(), view.counts(), records, journal, view.audit(), view.plans(), data


def test_not_armed_everything_can_be_looked_at_and_nothing_is_written(queue: Queue) -> None:
    looked = triage(queue, "ann")
    before = everything(queue)
    found = looked.find("error:timeout OR reason:timeout")
    assert list(found["label"]) == ["bolt", "acme", "bolt", "acme"]
    assert looked.groups()["count"].sum() == 6
    card = looked.show(found["id"].iloc[0])
    assert "A task of bolt" in card.plain()
    assert "abcdefgh12345678" not in card.plain() + card.html()
    plan = looked.plan("redrive", "tag:acme", rate=2, canary=1, reason="mended")
    assert plan.plan.selected == 3
    assert plan.number == 0
    assert not plan.kept
    assert "nothing is kept" in repr(plan)
    box = Box(looked)
    box.look.click()
    assert "6 tasks of 2 tags" in box.outcome.value
    assert box.run.disabled
    assert everything(queue) == before


@pytest.mark.parametrize("what", [0, 1, "plan"])
def test_not_armed_run_and_undo_refuse_and_say_how_it_is_armed(queue: Queue, what: Any) -> None:
    looked = triage(queue, "ann", role="admin")
    number = looked.plan("redrive") if what == "plan" else what
    before = everything(queue)
    for act in (looked.run, looked.undo):
        with pytest.raises(NotPermitted, match="armed=True"):
            act(number)
    assert everything(queue) == before


def test_a_look_has_the_words_that_the_plan_has(queue: Queue) -> None:
    given: dict[str, Any] = {"where": "tag:acme", "rate": 2.0, "canary": 1, "reason": "mended"}
    look = triage(queue, "ann").plan("redrive", **given)
    plan = triage(queue, "ann", armed=True).plan("redrive", **given)
    assert look.words == plan.words == planned_words(queue.plan(plan.number))
    assert look.tags.to_dict() == plan.tags.to_dict() == {"label": {0: "acme"}, "count": {0: 3}}


def test_armed_it_runs_and_undoes(queue: Queue) -> None:
    armed = triage(queue, "ann@example.org", armed=True)
    plan = armed.plan("redrive", "tag:acme")
    assert queue.counts().dead == 6  # nothing is moved by planning
    done = armed.run(plan)
    assert (done.plan.moved, queue.counts().dead) == (3, 3)
    assert "3 of 3 moved" in repr(done)
    back = armed.undo(plan.number, "not mended after all")
    assert (back.plan.moved, queue.counts().dead) == (3, 6)
    assert {(entry.actor, entry.origin, entry.role) for entry in queue.audit()} == {
        ("ann@example.org", "notebook", "operator")
    }


def test_the_rows_that_were_found_are_acted_on_as_they_were(queue: Queue) -> None:
    armed = triage(queue, "ann", armed=True)
    rows = armed.find().head(3)
    Operator(queue, "bob", "operator").redrive(rows["id"].iloc[1])
    plan = armed.plan("purge", rows, reason="not needed")
    assert plan.plan.selected == 2
    assert any("it has changed" in words for words in plan.words)
    armed.run(plan)
    assert {task.id for task in queue.tasks("trash")} == {rows["id"].iloc[0], rows["id"].iloc[2]}
    restored = armed.run(armed.plan("restore"))
    assert restored.plan.moved == 2


def test_only_dead_letters_are_moved_to_another_tag(queue: Queue) -> None:
    armed = triage(queue, "ann", armed=True)
    armed.run(armed.plan("move_tag", "tag:acme", tag="zeta"))
    assert [task.tag for task in queue.tasks("pending")] == ["acme"]
    assert sorted(task.tag for task in queue.tasks("dead")) == ["bolt"] * 3 + ["zeta"] * 3


def test_a_viewer_that_is_armed_may_not_act(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUE_ROLE", "viewer")
    assert triage(queue, "ann").plan("redrive").plan.selected == 6
    before = everything(queue)
    with pytest.raises(NotPermitted, match="needs the role operator"):
        triage(queue, "ann", armed=True).plan("redrive")
    assert everything(queue) == before


def test_mistakes_are_told_as_everywhere(queue: Queue) -> None:
    looked = triage(queue, "ann")
    with pytest.raises(InvalidFilter):
        looked.find("nowhere:1")
    with pytest.raises(InvalidArgument, match="redrive, move_tag, purge, restore"):
        looked.plan("requeue")
    with pytest.raises(InvalidArgument, match="reason"):
        looked.plan("purge")
    with pytest.raises(InvalidArgument, match="move_tag needs tag"):
        looked.plan("move_tag")
    armed = triage(queue, "ann", armed=True)
    with pytest.raises(InvalidArgument, match="only looked at"):
        armed.run(looked.plan("redrive"))


def test_a_store_that_keeps_no_plans_says_so_armed_or_not(tmp_path: Path) -> None:
    with open_queue(f"files://{tmp_path}/queue", durability="none") as queue:
        queue.dead_letter(queue.push(1).id, "no")  # type: ignore[arg-type]
        for armed in (False, True):
            chosen = triage(queue, "ann", armed=armed)
            assert len(chosen.find()) == 1
            with pytest.raises(InvalidArgument, match="keeps neither plans"):
                chosen.plan("redrive")


def test_who_acts_is_known_without_being_told(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "@" in triage(queue).actor
    monkeypatch.setenv("QUEUE_ACTOR", "carol")
    assert triage(queue).actor == "carol"
    assert repr(triage(queue)).endswith("read-only)")
    assert repr(triage(queue, armed=True)).endswith("operator: carol)")


# --- the box ------------------------------------------------------------------------------------------


def test_the_box_finds_inspects_plans_runs_and_undoes(queue: Queue) -> None:
    box = Box(triage(queue, "ann", armed=True))
    assert "<script>" not in box.groups.value + box.found.value
    box.where.value = "tag:acme"
    assert "3 tasks dead" in box.found.value
    box.tasks.value = (box.tasks.options[0][1],)
    assert "A task of acme" in box.detail.value
    assert "abcdefgh12345678" not in str(box.tasks.options) + box.detail.value
    box.tasks.value = ()
    box.look.click()
    assert (box.run.description, box.run.disabled) == ("Redrive 3 tasks", False)
    box.run.click()
    assert "3 of 3 moved" in box.outcome.value
    assert "0 tasks dead" in box.found.value
    box.run.click()  # the second of two quick clicks
    assert len(queue.plans()) == 1
    box.undo.click()
    assert queue.counts().dead == 6
    box.undo.click()
    assert len(queue.plans()) == 2


def test_in_the_box_a_group_is_a_filter_and_tasks_that_are_selected_are_acted_on_alone(queue: Queue) -> None:
    box = Box(triage(queue, "ann", armed=True))
    assert [label.split()[0] for label, _ in box.group.options] == ["All", "4", "2"]
    box.group.value = box.group.options[1][1]
    assert box.where.value == box.group.value == f"group:{queue.groups()[0].fingerprint.hex()}"
    assert [label.split()[0] for label, _ in box.tasks.options] == ["bolt", "acme", "bolt", "acme"]
    chosen = [box.tasks.options[place][1] for place in (0, 3)]
    box.tasks.value = tuple(chosen)
    box.look.click()
    assert "2 tasks of 2 tags" in box.outcome.value
    box.run.click()
    assert {queue.get(id).state for id in chosen} == {"pending"}
    assert queue.counts().dead == 4
    box.where.value = "nowhere:1"
    assert box.tasks.options == ()  # of before nothing is left to act on
    box.where.value = ""
    assert (box.group.label, len(box.tasks.options)) == ("All", 4)


def test_what_is_changed_after_the_look_puts_the_plan_away(queue: Queue) -> None:
    box = Box(triage(queue, "ann", armed=True))
    for change in (
        lambda: setattr(box.where, "value", "tag:bolt"), lambda: setattr(box.reason, "value", "another"),
        lambda: setattr(box.rate, "value", 3.0), lambda: setattr(box.action, "value", "purge"),
        lambda: setattr(box.tasks, "index", (0,)),
    ):  # fmt: skip
        box.look.click()
        assert not box.run.disabled
        change()
        assert box.run.disabled
        box.run.click()
    assert queue.counts().dead == 6


def test_what_goes_wrong_is_said_in_the_box(queue: Queue) -> None:
    box = Box(triage(queue, "ann", armed=True))
    box.where.value = "nowhere:<b>"
    assert "The filter has a mistake" in box.outcome.value
    assert "<b>" not in box.outcome.value
    box.where.value = ""
    box.action.value = "purge"
    box.look.click()
    assert "purge needs a reason" in box.outcome.value


def test_a_queue_that_is_closed_is_said_in_the_box() -> None:
    with open_queue("memory://") as queue:
        box = Box(triage(queue, "ann"))
    box.refresh.click()
    assert "was closed" in box.outcome.value


def test_it_shows_itself_as_a_box_and_in_plain_text(queue: Queue) -> None:
    bundle = triage(queue, "ann")._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == f"Triage({queue.url!r}, read-only)"
