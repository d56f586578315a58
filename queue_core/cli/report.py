"""queue-core report: a notebook run on the queue, as one HTML file to read or to send."""

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from queue_core.cli.base import Meter, Session, json_option, pass_session, say, url_option
from queue_core.cli.show import safe, table


@click.command("report")
@click.argument("name", required=False)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write it to this file, or over it.")
@click.option("--code", is_flag=True, help="Show the code of the notebook, too.")
@url_option
@json_option
@pass_session
def report(session: Session, name: str | None, out: str | None, code: bool) -> None:
    """Run a notebook on the queue and write it as one HTML file, which needs no network to be read. The queue is only
    read; secrets are masked. Without NAME, list the notebooks that there are.

    It needs the extra: pip install 'queue_core[notebook]'. When a cell fails, nothing is written.

    \b
    Examples:
      queue-core report
      queue-core report fairness --out fairness.html
      queue-core report backlog --out "backlog-$(date +%F).html" --url /var/lib/app/queue
    """
    from queue_core.notebook import report as notebooks  # takes a second, and needs the extra

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
    _write(known[name], url, Path(out), code)
    say(f"{name} of {safe(url)} written to {safe(out)}.")


def _write(path: Path, url: str, out: Path, code: bool) -> None:
    """Beside it first: what is under the name is whole, or what it was before."""
    from queue_core.frames import address_text
    from queue_core.notebook.report import ReportFailed, executed
    from queue_core.notebook.sheet import sheet

    meter = Meter(None)
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    with beside.open("w", encoding="utf-8") as file:
        try:
            done = executed(path, url, lambda cells, of: meter.show(cells, f"cell {cells + 1} of {of}"))
            file.write(sheet(done, about=address_text(url), at=datetime.now(UTC), code=code))
            file.flush()
            beside.replace(out)
        except ReportFailed as error:
            raise click.ClickException(f"{path.stem} failed, nothing was written: {safe(str(error))}") from None
        finally:
            meter.clear()
            beside.unlink(missing_ok=True)
