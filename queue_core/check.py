"""The invariants, verified against the whole store. Operators run it; every test that used a store ends with it."""

from collections import Counter, defaultdict
from collections.abc import Callable

from queue_core import fairness
from queue_core.histogram import merged
from queue_core.history import JOURNAL_LIMIT, Kind
from queue_core.ledger import Counts, Tag, Totals, samples
from queue_core.series import COUNTERS
from queue_core.snapshot import Finding
from queue_core.stores.base import Inventory
from queue_core.stores.engine import measure
from queue_core.task import LIVE, State, id_text

Say = Callable[[int, str], None]
LIMIT = 100  # findings of one kind that are reported


def check(inventory: Inventory) -> list[Finding]:
    """Every broken invariant; an empty list is a sound store.

    Cost: one pass over all tasks and the journal. Reads one transaction; writes nothing.
    """
    findings: list[Finding] = []

    def say(invariant: int, message: str) -> None:
        if sum(finding.invariant == invariant for finding in findings) < LIMIT:
            findings.append(Finding(invariant, message))

    tags = {tag.number: tag for tag in inventory.tags}
    counted: dict[int, Counts] = defaultdict(Counts)
    heads: dict[int, tuple[int, int]] = {}
    holding: list[tuple[int, bytes]] = []
    grouped: Counter[tuple[bytes, int]] = Counter()
    for record in inventory.records:
        name = f"task {id_text(record.id)}"
        if record.tag not in tags:
            say(1, f"{name} belongs to tag number {record.tag}, which is not known")
            continue
        counted[record.tag].add(record.state, 1)
        if record.state is State.DEAD and (record.group or not inventory.meta.grouped):
            grouped[record.group, record.tag] += 1
        if record.state is State.PENDING:
            heads[record.tag] = min(heads.get(record.tag, (record.place, record.ready)), (record.place, record.ready))
        if record.state in (State.SCHEDULED, State.INFLIGHT) and record.order < inventory.meta.moment:
            say(1, f"{name} is to be moved by time before the queue looks for any such task")
        if record.dedupe_key is not None and record.state in LIVE:
            holding.append((record.tag, record.id))
        if (record.state is State.INFLIGHT) != (record.hold is not None) and record.state in LIVE:
            say(1, f"{name} is {record.state} and its lease is {record.hold}")
        if not 0 <= record.attempts <= record.leases:
            say(5, f"{name} counts {record.attempts} attempts of {record.leases} leases")
        if record.version > inventory.meta.last_version or record.place > inventory.meta.last_place:
            say(1, f"{name} has a version or place that was never given out")
        open_lease = record.state is State.INFLIGHT
        if len(record.history) != min(record.leases - open_lease, 100):
            say(5, f"{name} has {len(record.history)} closed attempts after {record.leases} leases")

    for problem in inventory.problems:
        say(1, problem)
    if sorted(holding) != sorted(inventory.holders):
        say(1, "the dedupe keys held are not those of the live tasks")
    _counters(inventory, tags, counted, say)
    _groups(inventory, grouped, say)
    for tag in inventory.tags:
        if (tag.head, tag.head_ready) != heads.get(tag.number, (0, 0)):
            say(
                4,
                f"tag {tag.name[:100]!r} takes place {tag.head} for its next, it is {heads.get(tag.number)}",
            )
        if not tag.eligible == (tag.number in inventory.eligible) == tag.may_be_served():
            say(3, f"tag {tag.name[:100]!r}: the rotation's view of it is not its state")
        if 0 < tag.timer < inventory.meta.moment:
            say(3, f"tag {tag.name[:100]!r} has a timer before the queue looks for any")
        if tag.timer != inventory.timers.get(tag.number, 0):
            say(3, f"tag {tag.name[:100]!r} has the timer {tag.timer}, not the one in the index")
    for extra in (inventory.eligible | set(inventory.timers)) - set(tags):
        say(3, f"tag number {extra} is in the rotation and not known")
    if inventory.meta.end_tag != max(tags, default=0):
        say(3, f"the ring ends at tag number {inventory.meta.end_tag}, the last known is {max(tags, default=0)}")
    if tags and not 1 <= inventory.meta.turn.tag <= inventory.meta.end_tag:
        say(3, f"the cursor is on tag number {inventory.meta.turn.tag}, outside the ring")
    _history(inventory, say)
    entries = list(inventory.journal)
    numbers = [number for number, _ in entries]
    ever = inventory.meta.events
    if numbers != list(range(ever - len(numbers) + 1, ever + 1)) or len(numbers) < min(ever, JOURNAL_LIMIT):
        say(7, "the journal has a gap, or its end is not the number of entries ever written")
    waiting = {tag.number: tag.eligible_serve for tag in inventory.tags if tag.eligible}
    for violation in fairness.violations((entry for _, entry in entries if entry.kind is Kind.LEASE), waiting):
        say(3, violation.text)
    return findings


def _history(inventory: Inventory, say: Say) -> None:
    """Buckets kept, what is open, and the remainder of expired ones make up the totals."""
    meta, past = inventory.meta, inventory.past
    if past is None:
        if meta.bucket:
            say(7, "there is history, and nothing is known of what is older")
        return
    changed = [tag for tag in inventory.tags if tag.measured.bucket == meta.bucket]
    if meta.measuring and sorted(inventory.touched) != sorted(tag.number for tag in changed):
        say(7, "the list of tags that have changed in the open bucket is not that of the tags")
    summed = past.expired.plus(meta.totals).plus(past.mark, -1)
    for bucket in inventory.buckets:
        summed = summed.plus(bucket.totals())
        if min(map(min, (bucket.column(field) for field in COUNTERS))) < 0:
            say(7, f"the bucket of {bucket.at} has a negative counter")
    for field in Totals.__struct_fields__:
        if getattr(summed, field) != getattr(meta.totals, field):
            say(7, f"the buckets and their remainder sum {field} to {getattr(summed, field)}, its total is "
                   f"{getattr(meta.totals, field)}")  # fmt: skip
    if not meta.measuring:
        return
    opened = Totals()
    for tag in changed:
        opened = opened.plus(tag.totals).plus(measure.mark_of(tag), -1)
    if opened != meta.totals.plus(past.mark, -1):
        say(7, f"the tags' part of the open bucket sums to {opened}, the queue's is {meta.totals.plus(past.mark, -1)}")


def _groups(inventory: Inventory, grouped: Counter[tuple[bytes, int]], say: Say) -> None:
    """The error groups count the dead letters that name them."""
    if inventory.groups is None:
        return
    if inventory.group_tags != grouped:
        say(2, "the counts of the error groups by tag are not those of a full count")
    if inventory.meta.groups != len(inventory.groups):
        say(2, f"the queue counts {inventory.meta.groups} error groups, there are {len(inventory.groups)}")
    marks = {group.fingerprint: group for group in inventory.groups}
    held: dict[bytes, list[int]] = defaultdict(list)
    for (mark, _), count in grouped.items():
        held[mark].append(count)
    for mark in marks.keys() | held.keys():
        group, counts = marks.get(mark), held.get(mark, [])
        if group is None or (group.count, group.tags) != (sum(counts), len(counts)):
            say(2, f"error group {mark.hex()} is {group}, a full count gives {sum(counts)} in {len(counts)} tags")


def _counters(inventory: Inventory, tags: dict[int, Tag], counted: dict[int, Counts], say: Say) -> None:
    meta, past = inventory.meta, inventory.past
    summed: Counter[str] = Counter()
    if past is not None:
        _conserved(past.forgotten, Counts(), "the forgotten tags", say)
        for field in Totals.__struct_fields__:
            summed[field] += getattr(past.forgotten, field)
    for name in ("waits", "services"):
        parts = [samples(getattr(tag.measured, name)) for tag in inventory.tags]
        parts += [samples(getattr(past, f"forgotten_{name}"))] if past is not None else []
        if merged(parts) != samples(getattr(meta, name)):
            say(2, f"the histogram of {name} of the queue is not the sum of those of its tags")
    for tag in inventory.tags:
        if tag.counts != counted[tag.number]:
            say(2, f"tag {tag.name[:100]!r} counts {tag.counts}, a full count gives {counted[tag.number]}")
        _conserved(tag.totals, tag.counts, f"tag {tag.name[:100]!r}", say)
        for field in Totals.__struct_fields__:
            summed[field] += getattr(tag.totals, field)
    whole = Counts(*(sum(getattr(count, state) for count in counted.values()) for state in Counts.__struct_fields__))
    if meta.counts != whole:
        say(2, f"the queue counts {meta.counts}, a full count gives {whole}")
    for field in Totals.__struct_fields__:
        if getattr(meta.totals, field) != summed[field]:
            say(2, f"total {field} of the queue is {getattr(meta.totals, field)}, of its tags {summed[field]}")
    _conserved(meta.totals, meta.counts, "the queue", say)


def _conserved(totals: Totals, counts: Counts, name: str, say: Say) -> None:
    came = totals.pushed + totals.moved_in
    went = totals.acked + totals.moved_out + totals.expunged
    if came != went + counts.all:
        say(6, f"{name}: {came} came, {went} went, {counts.all} are here")
    for field in Totals.__struct_fields__ + Counts.__struct_fields__:
        if getattr(totals, field, 0) < 0 or getattr(counts, field, 0) < 0:
            say(2, f"{name}: {field} is negative")
