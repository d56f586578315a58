"""queue-core report: a notebook run on the queue, as one HTML file to read or to send."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from queue_core.cli.base import Meter, Session, json_option, pass_session, say, url_option
from queue_core.cli.series import moment_or_ago, some_time
from queue_core.cli.show import safe, table

if TYPE_CHECKING:
    from queue_core.notebook.period import Period


@click.command("report")
@click.argument("name", required=False)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write it to this file, or over it.")
@click.option("--last", type=some_time, metavar="SPAN", help="Look back at so much time: 90m, 24h or 7d.")
@click.option(
    "--from", "since", type=moment_or_ago, metavar="TIME",
    help="Look back to an instant, such as 2026-03-01T12:00Z, or to so long ago, instead of --last.",
)  # fmt: skip
@click.option("--to", "until", type=moment_or_ago, metavar="TIME", help="Up to then, instead of now.")
@click.option("--code", is_flag=True, help="Show the code of the notebook, too.")
@url_option
@json_option
@pass_session
def report(
    session: Session, name: str | None, out: str | None, last: float | None, since: datetime | float | None,
    until: datetime | float | None, code: bool,
) -> None:  # fmt: skip
    """Run a notebook on the queue and write it as one HTML file, which needs no network to be read. The queue is only
    read; secrets are masked. Without NAME, list the notebooks that there are.

    --last, or --from and --to, say which time it looks back at; what waits, is held or is dead is that of now, and the
    report says so. Without them it looks at the last 2 hours of history, and at the newest 20,000 events.

    It needs the extra: pip install 'queue_core[notebook]'. When a cell fails, nothing is written.

    \b
    Examples:
      queue-core report
      queue-core report fairness --out fairness.html --last 24h
      queue-core report leases --out monday.html --from 2026-03-02T00:00Z --to 2026-03-03T00:00Z
      queue-core report backlog --out "backlog-$(date +%F).html" --url /var/lib/app/queue
    """
    length, end = _times(last, since, until)
    from queue_core.notebook import report as notebooks  # takes a second, and needs the extra
    from queue_core.notebook.period import Period

    known = notebooks.articles()
    if name is None:
        rows = [(known_name, notebooks.question(path)) for known_name, path in known.items()]
        if session.as_json:
            session.data([{"name": row[0], "question": row[1]} for row in rows])
        else:
            click.echo(table(("name", "question"), rows))
        return
    if name not in known:
        raise click.UsageError(f"there is no report {safe(name)}: there are {', '.join(known)}.")
    if out is None:
        raise click.UsageError(f"say where it goes: add --out FILE, such as --out {name}.html")
    with session.open() as queue:
        url = queue.url
    if url.startswith("memory:"):
        raise click.UsageError("a memory store is in no other process: name one that lasts, as in --url ./queue")
    period = None if length is None else Period(length, end)
    _write(known[name], url, Path(out), code, period)
    say(f"{name} of {safe(url)} written to {safe(out)}.")


def _times(
    last: float | None, since: datetime | float | None, until: datetime | float | None
) -> tuple[timedelta | None, datetime | None]:
    """How long to look back, and up to when; None: as the notebook says, and now. Raises UsageError."""
    now = datetime.now(UTC)
    begin, end = (now - timedelta(seconds=at) if isinstance(at, float) else at for at in (since, until))
    if end is not None and end > now:
        raise click.UsageError("--to is still to come: leave it out to look up to now.")
    if last is not None and begin is not None:
        raise click.UsageError("--last and --from both say where it begins: give one of them.")
    if last is not None:
        return timedelta(seconds=last), end
    if begin is None:
        if end is not None:
            raise click.UsageError("--to says where it ends: say where it begins, too, as in --last 24h.")
        return None, None
    end = end or now  # so that it begins just then, however long the notebook takes
    if begin >= end:
        raise click.UsageError("--from is not before --to, or before now where there is no --to.")
    return end - begin, end


def _write(path: Path, url: str, out: Path, code: bool, period: "Period | None") -> None:
    """Beside it first: what is under the name is whole, or what it was before."""
    from queue_core.frames import address_text
    from queue_core.notebook.report import ReportFailed, executed
    from queue_core.notebook.sheet import sheet

    meter = Meter(None)
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        try:
            done = executed(path, url, lambda cells, of: meter.show(cells, f"cell {cells + 1} of {of}"), period=period)
            about = address_text(url) + (f", {period}" if period else "")
            file.write(sheet(done, about=about, at=datetime.now(UTC), code=code))
            file.flush()
            beside.replace(out)
        except ReportFailed as error:
            raise click.ClickException(f"{path.stem} failed, nothing was written: {safe(str(error))}") from None
        finally:
            meter.clear()
            beside.unlink(missing_ok=True)
