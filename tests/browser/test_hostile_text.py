"""What tasks say may be anything: it is shown as it is, it is never run, and it breaks no page."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from looking import Server, button, select, sentence, visit
from playwright.sync_api import Page, expect

from queue_core import Item, Queue
from queue_core.control import Operator
from queue_core.frames import safe_text, tag_label
from queue_core.plans import Plan

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARKUP = "<img src=x onerror=\"document.title='run'\">"
MARKDOWN = "**bolder** :red[scarlet] $mathly$"
LINK = "[linked](javascript:document.title='run')"
FAR = "🧨 👩‍👩‍👧 שלום עולם مرحبا"
ODD = "nul \0 over \u202egnp.exe \u2066 bell \x07"
LONG = "long " * 2_000
TAGS = [MARKUP, MARKDOWN, LINK, FAR, ODD, LONG, ""]
TEXT = f"{MARKUP} <script>document.title='run'</script> {MARKDOWN} {LINK} {FAR} {ODD}"
SHOWN = safe_text(TEXT)
NUMBER = 2**70
PAYLOAD = {"text": TEXT, "number": NUMBER, "lone": "\ud800", MARKDOWN: [MARKUP]}
BIG = {"text": "y" * 900_000}
SENT = 2_000_000  # bytes of one page, at most


@pytest.fixture(scope="module")
def plan(server: Server) -> Plan:
    """In each tag a task that waits, one in flight and a dead letter, with text everywhere; and a plan with such a
    reason, which has moved one."""
    queue = server.queue
    queue.push_many([Item(PAYLOAD, tag, max_attempts=1, dedupe_key=f"{n} {TEXT}") for tag in TAGS for n in range(3)])
    for n, lease in enumerate(queue.lease_many(2 * len(TAGS), ttl=3_600, owner=TEXT)):
        if n < len(TAGS):
            queue.nack(lease, TEXT)
    operator = Operator(queue, TEXT, origin="library")
    spare = queue.push(PAYLOAD, tag=MARKUP)
    return operator.run(operator.plan("cancel", ids=[spare], reason=TEXT).number)


@contextmanager
def small(page: Page) -> Iterator[None]:
    """What the server sends meanwhile is not much."""
    sent: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.append(len(frame))))
    yield
    assert 1_000 < sum(sent) < SENT


def nothing_ran(page: Page) -> None:
    """No text became an element, and none was run."""
    for made in ("img[src=x]", ".katex", "a[href^='javascript:']", "a[href^='streamlit:']"):
        expect(page.locator(made)).to_have_count(0)
    for word in ("bolder", "scarlet", "mathly", "linked"):
        expect(page.get_by_text(word, exact=True)).to_have_count(0)  # an element with nothing else in it
    assert page.title() != "run"


def cells(page: Page, text: str) -> None:
    """It stands in a cell of a table."""
    expect(page.locator("table[role=grid] td").get_by_text(text, exact=True).first).to_be_attached()


def dead(queue: Queue, tag: str) -> str:
    (task,) = queue.tasks("dead", tag=tag).items
    return task.id


@pytest.mark.parametrize("path", ["", "fairness", "inflight", "dead"])
def test_in_tables_and_charts(page: Page, server: Server, plan: Plan, path: str) -> None:
    with small(page):
        visit(page, server, path)
        for tag in TAGS:
            cells(page, tag_label(tag))
    nothing_ran(page)


def test_in_a_dead_letter_that_is_opened(page: Page, server: Server, plan: Plan) -> None:
    with small(page):
        visit(page, server, "dead")
        select(page, "dead", tag_label(MARKUP))
        detail = page.locator(".st-key-detail")
        for text in (SHOWN, str(NUMBER)):
            expect(detail.get_by_text(text).first).to_be_visible()
        detail.get_by_role("tab", name="Copy as JSON").click()
        expect(detail.get_by_text('"\\ud800"').first).to_be_visible()
    nothing_ran(page)


@pytest.mark.parametrize("tag", [MARKUP, ODD, LONG], ids=["markup", "odd", "long"])
def test_on_the_page_of_its_tag(page: Page, server: Server, plan: Plan, tag: str) -> None:
    with small(page):
        visit(page, server, "")
        box = page.get_by_placeholder("Find a task, a tag, dead letters")
        box.fill(tag_label(tag))
        box.press("Enter")
        expect(sentence(page)).to_contain_text(f"{tag_label(tag)} is")
        expect(page.locator("table[role=grid] td").filter(has_text=MARKUP).first).to_be_attached()
    nothing_ran(page)


def test_on_the_page_of_its_task(page: Page, server: Server, plan: Plan) -> None:
    for tag in (MARKDOWN, LONG):
        with small(page):
            visit(page, server, f"task?task={dead(server.queue, tag)}")
            expect(sentence(page)).to_contain_text(tag_label(tag))
            expect(page.get_by_test_id("stCode").get_by_text(SHOWN).first).to_be_visible()
            expect(page.get_by_text(str(NUMBER)).first).to_be_visible()
        nothing_ran(page)


def test_in_a_plan_and_in_the_audit(page: Page, server: Server, plan: Plan) -> None:
    visit(page, server, f"operations?plan={plan.number}")
    expect(page.get_by_text(SHOWN).first).to_be_visible()
    nothing_ran(page)
    visit(page, server, "operations?show=Audit")
    cells(page, SHOWN)
    nothing_ran(page)


def test_a_payload_of_900_kb_is_previewed_and_downloaded_whole(page: Page, server: Server, plan: Plan) -> None:
    queue = server.queue
    task = queue.push(BIG, tag="big")
    queue.dead_letter(task.id, "too big")
    with small(page):
        visit(page, server, "dead?tag=big")
        select(page, "dead", "big")
        expect(page.get_by_text("yyyyyyyyyy… (900,011 characters)")).to_be_visible()
        with page.expect_download() as download:
            button(page, "Download 900,011 bytes").click()
        assert download.value.path().read_bytes() == task.record.payload
        visit(page, server, f"task?task={task.id}")
        expect(page.get_by_text("yyyyyyyyyy… (900,011 characters)")).to_be_visible()
