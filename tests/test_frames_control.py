"""Frames of control and of single tasks: declared, defined when empty, masked, safe with any text."""

from datetime import UTC, datetime

import pytest
from injected import Clock

from queue_core import Item, Queue, State, figures, frames
from queue_core.control import Operator
from queue_core.errors import InvalidFilter
from queue_core.frames import control, story
from queue_core.frames.tables import Schema
from queue_core.redact import Redactor

SECRET = "Zq9_hunter2"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kill(queue: Queue, error: str, tag: str = "acme", n: int = 1) -> list[str]:
    tasks = queue.push_many([Item({"n": k, "token": SECRET}, tag) for k in range(n)])
    return [queue.dead_letter(task.id, error).id for task in tasks]


def check_declared(frame: object, schema: Schema) -> None:
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(schema)


def test_without_rows_they_are_what_they_are_with_some(queue: Queue) -> None:
    task = queue.push("x")
    with queue.view() as view:
        check_declared(frames.groups_frame([], NOW), control.GROUPS)
        check_declared(frames.heat_frame(view, []), control.HEAT)
    check_declared(frames.plans_frame([], 0), control.PLANS)
    check_declared(frames.results_frame([]), control.RESULTS)
    check_declared(frames.audit_frame([]), control.AUDIT)
    check_declared(frames.attempts_frame(task), control.ATTEMPTS)
    check_declared(frames.edits_frame(task), story.EDITS)
    assert list(frames.story_frame(task)["what"]) == ["pushed"]


def test_groups_and_their_heat(queue: Queue, clock: Clock) -> None:
    kill(queue, "timeout after 3 s", n=2), kill(queue, "timeout after 4 s", "bolt"), kill(queue, f"token={SECRET}")
    operator = Operator(queue, "ann")
    groups = queue.groups()
    operator.resolve(groups[1].fingerprint.hex())
    with queue.view() as view:
        frame, heat = frames.groups_frame(view.groups(), view.snapshot().at), frames.heat_frame(view, view.groups())
    check_declared(frame, control.GROUPS)
    check_declared(heat, control.HEAT)
    assert list(frame["count"]) == [3, 1]
    assert list(frame["tags"]) == [2, 1]
    assert list(frame["status"]) == ["open", "resolved by ann"]
    assert sorted(zip(heat["label"], heat["count"], strict=True)) == [("acme", 1), ("acme", 2), ("bolt", 1)]
    assert SECRET not in frame.to_csv() + heat.to_csv()
    assert frames.groups_sentence(frame).startswith("2 error groups, 1 of them not resolved; the largest, 3 dead: ")
    kill(queue, f"token={SECRET}")
    assert "reopened" in list(frames.groups_frame(queue.groups(), NOW)["status"])


def test_the_text_of_a_group_is_masked_once_however_many_tags_it_hits(queue: Queue) -> None:
    """It was masked for each of 10,000 tags: a page took 1.5 s."""
    seen: list[str] = []

    class Counting(Redactor):
        def text(self, text: str) -> str:
            seen.append(text)
            return super().text(text)

    for n in range(20):
        kill(queue, f"the same error, {SECRET}", f"t{n}")
    with queue.view() as view:
        assert len(frames.heat_frame(view, view.groups(), Counting())) == 20
    assert len(seen) == 1


def test_plans_results_and_the_audit(queue: Queue) -> None:
    ids = kill(queue, "x", n=3)
    operator = Operator(queue, "ann", origin="test")
    plan = operator.plan("redrive", "state:dead", reason=f"token={SECRET}", rate=1e6)
    queue.redrive(ids[0])
    assert frames.plans_frame([plan], 0)["progress"].tolist() == [0.0]
    done = operator.run(plan.number)
    frame = frames.plans_frame([done], done.epoch)
    check_declared(frame, control.PLANS)
    assert frame[["moved", "skipped", "left", "progress"]].iloc[0].tolist() == [2, 1, 0, 1.0]
    with queue.view() as view:
        results = frames.results_frame(view.outcome(plan.number))
    check_declared(results, control.RESULTS)
    assert sorted(results["verdict"]) == ["moved", "moved", "skipped"]
    audit = frames.audit_frame(queue.audit())
    check_declared(audit, control.AUDIT)
    assert list(dict.fromkeys(audit["action"])) == ["plan", "run"]
    assert SECRET not in frame.to_csv() + audit.to_csv()
    told = frames.planned_words(plan)
    assert told[0] == "3 tasks of 1 tag"
    assert SECRET not in "".join(told)
    assert list(frames.planned_frame(plan)["count"]) == [3]
    assert frames.plan_words(done)[0] == "Plan 1, redrive: finished, 2 of 3 moved, 1 skipped"


def test_a_plan_of_nothing_has_words_too(queue: Queue) -> None:
    plan = Operator(queue, "ann").plan("redrive", "error:nothing")
    assert frames.planned_words(plan)[0] == "0 tasks of 0 tags"
    assert frames.planned_frame(plan).empty
    assert frames.plans_frame([plan], 0)["progress"].isna().all()


# --- letters ----------------------------------------------------------------------------------------


def found(queue: Queue, where: str = "", **given: object) -> frames.Letters:
    with queue.view() as view:
        return frames.newest(view, State.DEAD, frames.filter_of(State.DEAD, where), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [10, 100_000])
@pytest.mark.parametrize("where", ["", "tag:acme", "reason:even", "group:*", "payload.n>=0", "tag:acme reason:even"])
def test_pages_are_all_that_match_each_once_the_newest_first(queue: Queue, where: str, most: int) -> None:
    for n in range(60):
        kill(queue, "even" if n % 2 == 0 else "odd", "acme" if n % 3 else "bolt")
    with queue.view() as view:
        search = view.search(where, states=[State.DEAD])
        expected = [view.task(one).id for one in search][::-1]
    seen, after, first = [], None, 1
    while True:
        page = found(queue, where, after=after, limit=7, most=most)
        seen += [task.id for task in page.tasks]
        assert page.matched in (None, len(expected))
        after, first = page.behind(first)
        if after is None:
            break
    assert seen == expected
    assert first == len(expected) + 1


def test_a_filter_is_put_together(queue: Queue) -> None:
    assert frames.filter_of(State.DEAD) == "state:dead"
    whole = frames.filter_of(State.DEAD, frames.with_text("error:a OR error:b", "x y"), tag='odd "tag"')
    assert whole.startswith('state:dead tag:"odd \\"tag\\"" (error:a OR error:b) (error:"x y" OR ')
    with pytest.raises(InvalidFilter):
        frames.filter_of(State.DEAD, "age:2h")


def test_what_came_in_since_is_counted_by_the_filter_and_bounded(queue: Queue) -> None:
    def came(where: str, **given: int) -> tuple[int, bool]:
        with queue.view() as view:
            return frames.newer(view, State.DEAD, where, seen, **given)

    (first,) = kill(queue, "odd", "acme")
    seen = queue.get(first).record.entry
    assert came("") == (0, False)
    for n in range(60):
        kill(queue, "even" if n % 2 == 0 else "odd", "acme" if n % 3 else "bolt")
    assert came("") == (60, False)
    assert came("reason:even tag:bolt") == (10, False)
    assert came("reason:even", most=60) == (30, False)
    assert came("reason:even", most=59) == (29, True)  # the oldest of them is not looked at
    assert came("tag:bolt", most=20) == (20, False)


def test_what_is_gone_is_counted_of_what_was_shown(queue: Queue) -> None:
    ids = kill(queue, "x", n=3)
    at = queue.snapshot().at
    dead = frames.dead_frame(queue.tasks("dead"), at)
    queue.redrive(ids[0])
    lease = queue.lease()
    held = frames.leases_frame(queue.tasks("inflight"), at)
    with queue.view() as view:
        assert frames.gone(view, State.DEAD, dead) == 1
        assert frames.gone(view, State.INFLIGHT, held) == 0
    queue.release(lease)
    queue.lease()
    with queue.view() as view:
        assert frames.gone(view, State.INFLIGHT, held) == 1  # it is another lease
        assert frames.gone(view, State.INFLIGHT, held.head(0)) == 0


def test_groups_of_a_tag_are_counted_there(queue: Queue) -> None:
    for error, tag, times in (("a", "acme", 3), ("a", "bolt", 9), ("b", "acme", 5), ("c", "bolt", 1)):
        kill(queue, error, tag, times)
    with queue.view() as view:
        snapshot = view.snapshot()
        groups, unsure = frames.groups_of(view, snapshot, "acme")
        assert [(group.text, group.count, group.tags) for group in groups] == [("b", 5, 1), ("a", 3, 2)]
        assert not unsure
        assert [group.count for group in frames.groups_of(view, snapshot)[0]] == [12, 5, 1]
        assert frames.groups_of(view, snapshot, "nobody") == ([], False)
        found, unsure = frames.groups_of(view, snapshot, "acme", most=1)
        assert ([group.count for group in found], unsure) == ([3], True)


def test_a_filter_sees_what_is_masked(queue: Queue) -> None:
    kill(queue, f"password={SECRET}")
    assert found(queue, f"reason:{SECRET}").matched == 0
    assert found(queue, "reason:password").matched == 1


def test_what_may_stand() -> None:
    assert frames.may_stand("age:2h")[0].startswith("age")
    assert "tag:" in frames.may_stand("")
    assert "tag:acme state:dead" in frames.filter_help()


# --- one task ---------------------------------------------------------------------------------------


def test_a_tree_is_what_a_browser_can_show() -> None:
    deep: object = 1
    for _ in range(500):
        deep = [deep]
    tree = frames.payload_tree({"n": 2**70, "m": 2**53 - 1, "\ud800": "\0", "deep": deep, "b": True, "f": 1.5})
    assert tree["n"] == str(2**70)
    assert tree["m"] == 2**53 - 1
    assert (tree["b"], tree["f"], tree["�"]) == (True, 1.5, "�")
    assert "… 1 entry" in str(tree["deep"])


def test_a_task_is_copied_masked(queue: Queue) -> None:
    task = queue.push({"n": 2**70, "token": SECRET, "odd": "\ud800"}, tag="a'b", max_attempts=3)
    text, python = frames.task_json(task), frames.task_python(task)
    assert SECRET not in text + python
    assert str(2**70) in text
    assert python.endswith("""queue.push(payload, tag="a'b", max_attempts=3)""")
    pushed: list[object] = []
    task = queue.push({"n": [1, None, True], "t": "x"}, tag="a")
    fake = type("Fake", (), {"push": lambda _, payload, **options: pushed.append((payload, options))})()
    exec(frames.task_python(task), {"queue": fake})
    assert pushed == [({"n": [1, None, True], "t": "x"}, {"tag": "a", "max_attempts": 5})]


def test_the_story_of_a_task(queue: Queue, clock: Clock) -> None:
    operator = Operator(queue, "ann")
    id = queue.push({"n": 1}, tag="acme", max_attempts=1).id
    clock.advance(2)
    lease = queue.lease(owner="w")
    clock.advance(1)
    queue.nack(lease, "Traceback (most recent call last):\nOops: no")
    operator.edit(id, {"n": 2})
    operator.move_tag(id, "bolt")
    operator.purge(id, "rubbish")
    with queue.view() as view:
        told = frames.task_story(view, id)
    assert told.sentence == "A task of bolt, in the trash: restore it to bring it back"
    frame = told.story
    check_declared(frame, story.STORY)
    assert frame["at"].is_monotonic_increasing
    what = list(frame["what"])
    for expected in ("pushed", "lease 1, cycle 1", "lease 1 nacked", "payload edited", "moved", "purged",
                     "purge asked for", "came into the trash"):  # fmt: skip
        assert expected in what
    assert frame["after"].iloc[1] == 2.0
    assert "rubbish" in frame.to_csv()
    assert list(frames.edits_frame(told.task)["payload"]) == ['{"n":1}']


def test_the_heat_figure_sums_up_all(queue: Queue) -> None:
    for n in range(12):
        kill(queue, f"error {'abcdefghijkl'[n]}", f"<b>tag</b> {n}", n + 1)
    with queue.view() as view:
        heat = frames.heat_frame(view, view.groups())
    cells = figures.errors_by_tag(heat, errors=3, tags=4)
    values = cells.data[0].z
    assert sum(count or 0 for row in values for count in row) == queue.counts().dead == 78
    assert cells.layout.yaxis.ticktext[-1] == "9 other errors"
    assert cells.layout.xaxis.ticktext[-1] == "8 other tags"
    assert "<b>" not in cells.to_json()
    assert "no data" in figures.errors_by_tag(heat.iloc[:0]).layout.annotations[0].text
