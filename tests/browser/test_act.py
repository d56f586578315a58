"""A row is selected, the data moves under it, somebody acts: exactly the right task is changed."""

import re

import pytest
from looking import Server, button, rows, select, settle, visit
from playwright.sync_api import Page, expect
from waiting import until

from queue_core import State

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def kill(server: Server, tag: str) -> str:
    task = server.queue.push({"of": tag}, tag=tag)
    server.queue.dead_letter(task.id, f"reason of {tag}")
    return task.id


def hold(server: Server, tag: str, ttl: float = 600) -> str:
    server.queue.push({"of": tag}, tag=tag)
    lease = server.queue.lease(ttl=ttl, owner=f"owner of {tag}")
    assert lease is not None
    assert lease.tag == tag
    return lease.id


def test_redrive_while_others_arrive_on_top(page: Page, server: Server) -> None:
    old = {tag: kill(server, tag) for tag in ("old 1", "old 2", "old 3")}
    visit(page, server, "dead")
    assert rows(page, "dead") == ["old 3", "old 2", "old 1"]
    select(page, "dead", "old 2")
    expect(button(page, "Redrive 1 task")).to_be_enabled()
    new = [kill(server, f"new {n}") for n in range(3)]
    expect(page.get_by_text("3 newer, 0 gone")).to_be_visible()  # a refresh has seen them, and nothing has moved
    assert rows(page, "dead") == ["old 3", "old 2", "old 1"]
    button(page, "Redrive 1 task").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Redrive 1 task of 1 tag?")).to_be_visible()
    expect(dialog.get_by_text("old 2: 1")).to_be_visible()
    new.append(kill(server, "new 3"))
    dialog.get_by_role("button", name=re.compile("Redrive 1 task$")).click()
    expect(page.get_by_text("1 task redriven")).to_be_visible()
    expect(dialog).to_have_count(0)
    queue = server.queue
    assert queue.get(old.pop("old 2")).state is State.PENDING
    assert {queue.get(id).state for id in (*old.values(), *new)} == {State.DEAD}
    now = ["new 3", "new 2", "new 1", "new 0", "old 3", "old 1"]
    until(lambda: rows(page, "dead") == now)
    lease = queue.lease()
    assert lease is not None
    queue.ack(lease)


def test_a_refresh_keeps_the_selection_by_id(page: Page, server: Server) -> None:
    chosen = kill(server, "chosen")
    visit(page, server, "dead")
    select(page, "dead", "chosen")
    expect(button(page, "Redrive 1 task")).to_be_enabled()
    later = kill(server, "later")
    expect(page.get_by_text("1 newer, 0 gone")).to_be_visible()
    button(page, "Refresh").click()
    expect(page.get_by_text("Nothing has changed since")).to_be_visible()
    settle(page)
    until(lambda: rows(page, "dead")[:2] == ["later", "chosen"])
    button(page, "Redrive 1 task").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Redrive 1 task$")).click()
    expect(page.get_by_text("1 task redriven")).to_be_visible()
    assert server.queue.get(chosen).state is State.PENDING
    assert server.queue.get(later).state is State.DEAD
    lease = server.queue.lease()
    assert lease is not None
    server.queue.ack(lease)


def test_requeue_while_others_are_leased_and_end(page: Page, server: Server) -> None:
    queue = server.queue
    held = {tag: hold(server, tag, ttl) for tag, ttl in (("a", 500), ("b", 600), ("c", 700))}
    visit(page, server, "inflight")
    assert rows(page, "inflight") == ["a", "b", "c"]
    select(page, "inflight", "b")
    expect(button(page, "Requeue 1 task")).to_be_enabled()
    held["first"] = hold(server, "first", ttl=100)  # expires first: it would come on top
    queue.requeue(held["a"])
    queue.cancel(held.pop("a"))
    expect(page.get_by_text("1 leased, 1 ended; 3 now")).to_be_visible()
    button(page, "Requeue 1 task").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("b: 1")).to_be_visible()
    dialog.get_by_role("button", name=re.compile("Requeue 1 task$")).click()
    expect(page.get_by_text("1 task requeued")).to_be_visible()
    assert queue.get(held["b"]).state is State.PENDING
    assert {queue.get(held[tag]).state for tag in ("c", "first")} == {State.INFLIGHT}


def test_dead_letter_with_a_reason_and_a_task_that_has_moved_on(page: Page, server: Server) -> None:
    queue = server.queue
    queue.requeue_inflight()
    while (lease := queue.lease()) is not None:
        queue.ack(lease)
    stays, moves = hold(server, "stays"), hold(server, "moves")
    visit(page, server, "inflight")
    select(page, "inflight", "stays")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    expect(button(page, "Dead-letter 2 tasks")).to_be_enabled()
    button(page, "Dead-letter 2 tasks").click()
    dialog = page.get_by_role("dialog")
    queue.requeue(moves)
    confirm = dialog.get_by_role("button", name=re.compile("Dead-letter 2 tasks$"))
    confirm.click()
    expect(dialog.get_by_text("Give a reason first")).to_be_visible()
    assert queue.get(stays).state is State.INFLIGHT
    dialog.get_by_role("textbox").fill("poison")
    confirm.click()
    expect(page.get_by_text("1 of 2 tasks dead-lettered; 1 skipped")).to_be_visible()
    assert queue.get(stays).reason == "poison"
    assert queue.get(moves).state is State.PENDING
