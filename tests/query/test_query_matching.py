"""Which tasks a filter means, field by field."""

from typing import Any

import msgspec
import pytest
from filters import populate
from injected import Clock

from queue_core import Queue
from queue_core.query import Facts, Masking, parse, quote
from queue_core.query.facts import MISSING
from queue_core.stores.base import Found
from queue_core.task import State

ALL = {
    "timed out", "timed out too", "straße", "expired", "given up", "purged", "cancelled", "retried", "later", "held",
    "waiting", "waiting too",
}  # fmt: skip
DEAD = {"timed out", "timed out too", "straße", "expired", "given up"}
BURIED = DEAD | {"purged", "cancelled"}


class Tasks:
    """The tasks of ``populate``, and which of them a filter matches."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self.ids = populate(queue, clock.advance)
        self.now = clock.now
        self.found = {name: _found(queue, id) for name, id in self.ids.items()}

    def matching(self, where: str, **options: Any) -> set[str]:
        expression = parse(where)
        return {name for name, found in self.found.items() if expression.matches(Facts(found, self.now, **options))}


def _found(queue: Queue, id: str) -> Found:
    task = queue.get(id)
    return Found(task.record, task.tag)


@pytest.fixture
def tasks(queue: Queue, clock: Clock) -> Tasks:
    return Tasks(queue, clock)


CASES: list[tuple[str, set[str]]] = [
    ("", ALL),
    ("tag:acme", {"timed out", "straße", "given up", "purged", "held", "waiting"}),
    ("tag:acme*", {"timed out", "timed out too", "straße", "given up", "purged", "held", "waiting"}),
    ("tag:*-2", {"timed out too"}),
    ("tag:cme* OR tag:*acm OR tag:acm", set()),
    ("tag:*cme-*", {"timed out too"}),
    ('tag:"acme*" OR tag:ACME', set()),
    ('tag:""', {"later"}),
    ('tag:"😀\\n"', {"expired"}),
    ("state:dead", DEAD),
    ("state:trash OR state:scheduled", {"purged", "cancelled", "retried", "later"}),
    ("-state:dead -state:trash", {"retried", "later", "held", "waiting", "waiting too"}),
    ("timeout", {"timed out", "timed out too"}),
    ("timed READ", {"timed out", "timed out too"}),
    ('"after 30 s"', {"timed out"}),
    ("error:strasse", {"straße"}),
    ("error:straße", {"straße"}),
    ('error:"\\"X\\" (é)\\n😀"', {"straße"}),
    ('error="no route"', {"purged"}),
    ("error=NO*", {"purged", "retried"}),
    ("error=*host", {"retried"}),
    ("-error:*", ALL - {"timed out", "timed out too", "straße", "purged", "retried"}),
    ("reason:given", {"given up"}),
    ('reason:"no attempts left"', {"timed out", "timed out too", "straße", "expired", "purged"}),
    ("reason:*", BURIED - {"cancelled"}),
    ("group:*", BURIED - {"cancelled"}),
    ('owner:"w*"', {"expired"}),
    ("owner:w*", {"timed out", "timed out too", "straße", "expired", "purged", "held"}),
    ('owner:"worker 9"', {"held"}),
    ("dedupe:order-1", {"given up"}),
    ('dedupe:"order*2"', {"later"}),
    ("-dedupe:*", ALL - {"given up", "later"}),
    ("age<=2m", {"waiting too"}),
    ("age=2m", {"waiting too"}),
    ("state:dead age>10h", {"timed out", "timed out too"}),
    ("created>=11h2m", {"timed out"}),
    ("created=2m", {"waiting too"}),
    ("silence>=1h", {"held"}),
    ("expires<0s", {"held"}),
    ("expires>=0s", set()),
    ("due<=2h", {"retried"}),
    ("due>1h", {"later"}),
    ("due>0s -due>10h", {"retried"}),
    ("attempts>=1", {"timed out", "timed out too", "straße", "expired", "purged", "retried", "held"}),
    ("attempts:0 state:pending", {"waiting", "waiting too"}),
    ("max_attempts>5", {"retried"}),
    ("leases=0 state:dead", {"given up"}),
    ("cycle>1 OR defers>0", set()),
    ("version<=3", {"timed out"}),
    ("size>50", {"timed out", "timed out too", "straße", "retried", "later", "held", "waiting", "waiting too"}),
    ("size=2", {"given up", "purged", "cancelled"}),
]


@pytest.mark.parametrize(("where", "names"), CASES)
def test_a_filter_matches_the_tasks_that_it_means(tasks: Tasks, where: str, names: set[str]) -> None:
    assert tasks.matching(where) == names
    assert tasks.matching(f"-({where})" if where else "-tag:* -tag:*") == ALL - names


NUMBER, TEXT, ODD = ({"timed out", "retried", "held", "waiting"}, {"straße", "later"}, {"timed out too", "waiting too"})


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("payload.user.id:42", NUMBER | TEXT),
        ("payload.user.id=42", NUMBER | TEXT),
        ('payload.user.id:"42"', TEXT),
        ("payload.user.id:42*", TEXT),
        ("payload.user.id:42.0", NUMBER),
        ("payload.user.id:*", NUMBER | TEXT | ODD),
        ("payload.user.id>42", ODD),
        ("payload.user.id>=42", NUMBER | ODD),
        ('payload.user.id>="42"', TEXT),
        ("payload.n:1180591620717411303424", NUMBER),
        ("payload.n:1180591620717411303425", set()),
        ("payload.n>1180591620717411303423", NUMBER),
        ("payload.n<1e99", NUMBER),
        ("payload.user.name:Ann", NUMBER),
        ("payload.user.name:ann", set()),
        ("payload.user.name:*n*", NUMBER),
        ("payload.items[0].sku:x", NUMBER),
        ("payload.items[0].sku:y", set()),
        ("payload.items[*].sku:y", NUMBER),
        ("payload.items[2].sku:*", set()),
        ("payload.items.sku:*", set()),
        ('payload."a.b".c:1.5', ODD),
        ('payload."a.b".c<1.6', ODD),
        ("payload.a.b.c:*", set()),
        ('payload."say \\"é\\"\\n\\u0000😀":true', ODD),
        ('payload."say \\"é\\"\\n\\u0000😀":1', set()),
        ('payload."say \\"é\\"\\n\\u0000😀">0', set()),
        ('payload.lone:"\\ud800"', ODD),
        ("payload.none:null", TEXT),
        ("payload.none:*", TEXT),
        ('payload.none:"null"', set()),
        ("payload.user:null", set()),
        ("payload.day>=2026-11-01", TEXT),
        ("payload.day>=2026-11-03", set()),
        ("payload[0]:1", {"expired"}),
        ("payload[0]:true", set()),
        ("payload[1][*]:3", {"expired"}),
        ("payload[*].k:false", {"expired"}),
        ("payload[*].k:0", set()),
        ("payload=42", {"given up"}),
        ("payload>41", {"given up"}),
        ('payload=""', {"purged", "cancelled"}),
        ("payload:ANN", NUMBER),
        ('payload:"\\"id\\":42,"', NUMBER),
        ("payload:*", ALL),
        ("-payload.user.id:42 payload.user:*", ODD),
    ],
)
def test_a_payload_is_asked_by_path_and_type(tasks: Tasks, where: str, names: set[str]) -> None:
    assert tasks.matching(where) == names


def test_ids_and_groups_are_found_in_whole_and_by_their_beginning(tasks: Tasks) -> None:
    for name, id in tasks.ids.items():
        assert tasks.matching(f"id:{id}") == tasks.matching(f"id:{id.replace('-', '').upper()}") == {name}
        assert tasks.matching(f"id:{id[:-1]}*") >= {name}
        assert tasks.matching(f"id:{id.replace('-', '')[:31]}*") >= {name}
    mark = tasks.found["timed out"].record.group.hex()
    assert tasks.matching(f"group:{mark}") == {"timed out", "timed out too"}
    assert tasks.matching(f"group:{mark[:15]}*") >= {"timed out", "timed out too"}


def test_the_age_of_a_scheduled_task_runs_from_what_scheduled_it(tasks: Tasks) -> None:
    retried, later = tasks.found["retried"], tasks.found["later"]
    assert retried.record.state is later.record.state is State.SCHEDULED
    assert Facts(retried, tasks.now).age == tasks.now - retried.record.history[-1].ended
    assert Facts(later, tasks.now).age == Facts(later, tasks.now).created


def test_a_clock_set_back_makes_no_age_negative(tasks: Tasks) -> None:
    for found in tasks.found.values():
        facts = Facts(found, 0)
        assert facts.age == facts.created == (facts.silence or 0) == 0


def test_without_an_error_the_end_of_the_newest_attempt_is_the_error(queue: Queue) -> None:
    queue.push("x", tag="a")
    lease = queue.lease()
    assert lease is not None
    queue.dead_letter(lease, "Poisonous")
    found = _found(queue, lease.id)
    assert found.record.error is None
    assert parse("poisonous").matches(Facts(found, 0))
    assert parse("reason:poisonous").matches(Facts(found, 0))
    redriven = queue.redrive(lease.id)
    assert not parse("reason:poisonous").matches(Facts(_found(queue, redriven.id), 0))


class Hidden:
    """Hides one word, and counts how often it was asked."""

    def __init__(self) -> None:
        self.values = 0
        self.texts = 0

    def value(self, payload: Any) -> Any:
        self.values += 1
        return payload | {"password": "***"} if isinstance(payload, dict) else payload

    def text(self, text: str) -> str:
        self.texts += 1
        return text.replace("hunter2", "***")


def test_filters_see_masked_text_only(queue: Queue) -> None:
    mask = Hidden()
    masking: Masking = mask
    queue.push({"password": "hunter2", "user": 1}, tag="hunter2", max_attempts=1)
    lease = queue.lease()
    assert lease is not None
    queue.nack(lease, "wrong password hunter2")
    found = _found(queue, lease.id)
    for where in ("hunter2", "error:hunter*", "payload:hunter", "payload.password:hunter2", "payload.password>hunter1"):
        assert parse(where).matches(Facts(found, 0))
        assert not parse(where).matches(Facts(found, 0, masking))
    for where in ('error:"password ***"', 'payload.password:"***"', 'payload:"***"', "payload.user:1", "tag:hunter2"):
        assert parse(where).matches(Facts(found, 0, masking))
    queue.dead_letter(queue.redrive(lease.id).id, "said hunter2")
    assert not parse("reason:hunter2").matches(Facts(_found(queue, lease.id), 0, masking))


def test_only_what_is_asked_for_is_found_out(tasks: Tasks) -> None:
    mask = Hidden()
    assert tasks.matching("tag:acme state:dead age>1s size>1 -owner:x", mask=mask)
    assert (mask.values, mask.texts) == (0, 0)
    facts = Facts(tasks.found["timed out"], tasks.now, mask)
    assert parse("payload.user.id:42 payload.n>1 payload:ann read timed out error:after").matches(facts)
    assert (mask.values, mask.texts) == (1, 1)


@pytest.mark.parametrize("data", [b"\x01\x9c\xc4", b"[" * 100_000, b"[1", b"\xff", b"9" * 5_000])
def test_a_payload_that_is_no_json_has_no_values(tasks: Tasks, data: bytes) -> None:
    found = tasks.found["waiting"]
    broken = Found(msgspec.structs.replace(found.record, payload=data), found.tag)
    assert Facts(broken, 0).document is MISSING
    assert not parse("payload:* OR payload.a:* OR payload=1 OR payload[*]:*").matches(Facts(broken, 0))
    assert parse("-payload.a:1 tag:acme size>0").matches(Facts(broken, 0))


def test_long_texts_are_compared_whole(queue: Queue) -> None:
    tag, text = "é" * 30_000, "\x01😀" * 5_000
    found = _found(queue, queue.push({"k": text, text: 1}, tag=tag).id)
    assert parse(f'tag:{quote(tag)} payload.k:{quote(text)} payload.{quote(text + " ")[:-2]}":1').matches(
        Facts(found, 0)
    )
    assert not parse(f"tag:{quote(tag[:-1])} OR payload.k:{quote(text[:-1])}").matches(Facts(found, 0))
