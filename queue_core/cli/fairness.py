"""queue-core fairness: whether every tag got its turn, and the proof where one did not."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import click

from queue_core.cli.base import (
    PARTLY,
    STORE,
    Session,
    count,
    json_option,
    pass_session,
    say,
    tags_option,
    url_option,
)
from queue_core.cli.show import UNKNOWN, clock, number, safe, span, table, tag_text
from queue_core.fairness import Fairness, TagFairness, Violation, assess, latest, standing
from queue_core.history import Entry, Kind
from queue_core.queue import Queue, View
from queue_core.snapshot import Snapshot
from queue_core.task import id_text, microseconds, moment

PIECE = 10_000  # journal entries that are read at once
SHOWN, SHOWN_SERVES = 5, 10  # violations, and serves of each, for a person
LISTED, LISTED_SERVES = 100, 100  # the same as JSON


@dataclass(frozen=True)
class Judged:
    """One view of the queue, judged."""

    snapshot: Snapshot
    leases: list[Entry]
    names: dict[int, str | None]
    found: Fairness


@click.command(short_help="Whether every tag got its turn, and its share.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Look at the last N serves only.")
@tags_option
@url_option
@json_option
@pass_session
def fairness(session: Session, last: int | None, limit: int) -> None:
    """Judge the serves that the journal holds, about the last 200,000 events.

    The guarantee: between two serves of a tag that stayed eligible, every other tag is served at most its own weight.
    Where that was broken, the serves that show it are printed, and the exit code is 1.

    Jain's index compares what the tags that stayed eligible got for their weight: 1 is exactly by weight, 1/n is all
    for one of n. DUE is the weighted max-min fair share: what a tag did not need was due to the others. Gaps are
    counted in serves, from one of a tag to its next; IDEAL is the weights of all eligible tags over its own. Noisy is
    a tag that has more than a tenth of the leases in flight, and at least 30, or of the worker time.

    \b
    Examples:
      queue-core fairness
      queue-core fairness --last 1000 && echo fair
      queue-core fairness --json | jq '.tags[] | {tag, served, entitled}'
    """
    with session.open() as queue:
        if not queue.capabilities.journal:
            say(f"Error: {safe(queue.url)} keeps no journal, so there is nothing to judge its serves by.")
            raise click.exceptions.Exit(STORE)
        with queue.view() as view:
            judged = _judge(view, last)
        if session.as_json:
            session.data(_plain(queue, judged))
        else:
            _show(judged, limit)
    if judged.found.violations:
        raise click.exceptions.Exit(PARTLY)


def _judge(view: View, last: int | None) -> Judged:
    """All of it from one view, so that a queue that goes on meanwhile does not blur it."""
    snapshot = view.snapshot()
    entries: list[Entry] = []
    names: dict[int, str | None] = {}
    after = 0
    while piece := view.journal(after=after, limit=PIECE):
        after = piece[-1].number
        for event in piece:
            entries.append(event.entry)
            names[event.entry.tag] = event.tag
    names |= {tag.number: tag.name for tag in snapshot.tags}
    recent = latest(entries, last or len(entries))
    found = assess(recent, map(standing, snapshot.tags), microseconds(snapshot.at, "at"))
    return Judged(snapshot, [entry for entry in recent if entry.kind is Kind.LEASE], names, found)


def _verdict(judged: Judged) -> str:
    found = judged.found
    if not found.serves:
        ever = judged.snapshot.ring.serves
        return (
            f"Nothing to judge: {f'none of {ever:,} serves is in the journal' if ever else 'nothing was served yet'}."
        )
    broken = len(found.violations)
    times = "Fair: not once" if not broken else f"Not fair: {'once' if broken == 1 else f'{broken:,} times'}"
    return (
        f"{times} in {count(found.serves, 'serve')} was a tag that stayed eligible passed over while another was "
        "served more than its weight."
    )


def _jain(found: Fairness) -> str:
    stayed = count(sum(tag.stayed for tag in found.tags), "tag")
    if found.index is not None:
        return f"Jain's index {found.index:.4f} over {stayed} that stayed eligible (1 is exactly by weight)"
    if any(tag.stayed for tag in found.tags):
        return f"Jain's index has no value: that was not yet a round of {stayed} that stayed eligible"
    return "Jain's index has no value: no tag stayed eligible all the time; --last N looks at fewer serves"


# --- for a person ---------------------------------------------------------------------------------


def _show(judged: Judged, limit: int) -> None:
    found = judged.found
    if found.span is None:
        say(_verdict(judged))
        return
    click.echo(_verdict(judged))
    click.echo(f"serves {found.first:,} to {found.last:,}, the first of them {span(found.span)} ago")
    click.echo(_jain(found))
    heads = (
        "TAG", ">WEIGHT", ">SERVED", ">DUE", ">SERVED %", ">DUE %", ">WORKER TIME", ">TIME %", ">GAP", ">IDEAL",
        ">LONGEST", "OVER A TENTH OF",
    )  # fmt: skip
    click.echo()
    click.echo(table(heads, [_row(judged, tag) for tag in found.tags[:limit]]))
    if len(found.tags) > limit:
        click.echo(f"… and {count(len(found.tags) - limit, 'more tag')}; --tags {len(found.tags)} shows all")
    for place, violation in enumerate(found.violations[:SHOWN], 1):
        click.echo(f"\nviolation {place:,} of {len(found.violations):,}: {_story(judged, violation)}")
        click.echo(_proof(judged, violation))
    if len(found.violations) > SHOWN:
        click.echo(f"\n… and {count(len(found.violations) - SHOWN, 'more violation')}; --json has the first {LISTED}")


def _row(judged: Judged, tag: TagFairness) -> list[str]:
    gaps = tag.gaps
    mean, ideal = (gaps.mean, gaps.ideal) if gaps else (None, None)
    return [
        _name(judged, tag.tag), number(tag.weight), number(tag.served), f"{tag.entitled:,.1f}", _part(tag.served_share),
        _part(tag.entitled_share), span(tag.worker_time), _part(tag.worker_share), _decimal(mean), _decimal(ideal),
        number(gaps.longest if gaps else None), ", ".join(tag.noisy),
    ]  # fmt: skip


def _part(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}"


def _decimal(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.2f}"


def _name(judged: Judged, tag: int) -> str:
    name = judged.names.get(tag)
    return f"(forgotten, number {tag})" if name is None else tag_text(name)


def _story(judged: Judged, violation: Violation) -> str:
    waited = f"has waited since serve {violation.since:,}"
    if violation.until is not None:
        waited = f"waited from serve {violation.since:,} to serve {violation.until:,}"
    tag, other = _name(judged, violation.tag), _name(judged, violation.other)
    return (
        f"{tag}, eligible throughout, {waited} while {other} of weight {violation.weight:,} was served "
        f"{violation.served:,} times"
    )


def _serves(judged: Judged, violation: Violation, limit: int) -> list[Entry]:
    """The serves that show it: where the wait began, of the other tag in between the first ones, and where it ended."""
    end = violation.until or float("inf")
    between = (lease for lease in judged.leases if violation.since < lease.serve < end)
    inside = list(islice((lease for lease in between if lease.tag == violation.other), limit))
    edges = {lease.serve: lease for lease in judged.leases if lease.serve in (violation.since, violation.until)}
    return [*filter(None, [edges.get(violation.since)]), *inside, *filter(None, [edges.get(violation.until or 0)])]


def _proof(judged: Judged, violation: Violation) -> str:
    rows = [
        [
            f"{lease.serve:,}", clock(moment(lease.at)), _name(judged, lease.tag), number(lease.weight),
            f"{lease.since:,}", id_text(lease.id), safe(lease.owner or UNKNOWN, 40),
        ]
        for lease in _serves(judged, violation, SHOWN_SERVES)
    ]  # fmt: skip
    heads = (">SERVE", "TIME", "TAG", ">WEIGHT", ">ELIGIBLE SINCE", "TASK", "OWNER")
    lines = table(heads, rows).split("\n")
    more = violation.served - SHOWN_SERVES
    if more > 0:
        place = len(lines) - (violation.until is not None)
        lines.insert(place, f"… and {count(more, 'more serve')} of {_name(judged, violation.other)}")
    return "\n".join(f"  {line}" for line in lines)


# --- for a program --------------------------------------------------------------------------------


def _plain(queue: Queue, judged: Judged) -> dict[str, Any]:
    found = judged.found
    begun = moment(judged.leases[0].at) if judged.leases else None
    return {
        "url": queue.url, "at": judged.snapshot.at, "fair": not found.violations if found.serves else None,
        "verdict": _verdict(judged), "serves": found.serves, "first_serve": found.first, "last_serve": found.last,
        "first_served_at": begun, "index": found.index, "tags": [_plain_tag(judged, tag) for tag in found.tags],
        "violations_in_all": len(found.violations),
        "violations": [_plain_violation(judged, violation) for violation in found.violations[:LISTED]],
    }  # fmt: skip


def _plain_tag(judged: Judged, tag: TagFairness) -> dict[str, Any]:
    gaps = tag.gaps
    return {
        "tag": judged.names.get(tag.tag), "number": tag.tag, "weight": tag.weight, "stayed_eligible": tag.stayed,
        "served": tag.served, "entitled": tag.entitled, "served_share": tag.served_share,
        "entitled_share": tag.entitled_share, "worker_seconds": tag.worker_time, "worker_share": tag.worker_share,
        "mean_gap": gaps and gaps.mean, "ideal_gap": gaps and gaps.ideal, "longest_gap": gaps and gaps.longest,
        "turns_waited": gaps and gaps.turns, "noisy": tag.noisy,
    }  # fmt: skip


def _plain_violation(judged: Judged, violation: Violation) -> dict[str, Any]:
    return {
        "tag": judged.names.get(violation.tag), "since_serve": violation.since, "until_serve": violation.until,
        "other": judged.names.get(violation.other), "served": violation.served, "weight": violation.weight,
        "serves": [
            {
                "serve": lease.serve, "at": moment(lease.at), "tag": judged.names.get(lease.tag),
                "weight": lease.weight, "eligible_since_serve": lease.since, "task_id": id_text(lease.id),
                "owner": lease.owner or None,
            }
            for lease in _serves(judged, violation, LISTED_SERVES)
        ],
    }  # fmt: skip
