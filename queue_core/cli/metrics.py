"""queue-core metrics: for Prometheus, and for those who set it up."""

import errno
import signal
import threading
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from queue_core.cli.base import Interrupted, Session, listening, pass_session, say, url_option
from queue_core.cli.show import safe
from queue_core.errors import StoreBusy, StoreGone

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from queue_core.prometheus import QueueCollector

FILES = ("queue-core-dashboard.json", "queue-core-alerts.yml")  # in queue_core/data, and as they are written


@click.command(short_help="Serve metrics for Prometheus; write a dashboard and alert rules.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve at; 0.0.0.0 is all of them.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=9464, show_default=True, help="The port; 0 takes a free one."
)
@click.option(
    "--tags", type=click.IntRange(0), default=50, show_default=True,
    help="Tags with series of their own, those with the largest backlog; 0: none.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one scrape and end.")
@click.option(
    "--write", "directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="Write the Grafana dashboard and the alert rules there, and end.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="With --write: overwrite files that were changed.")
@url_option
@pass_session
def metrics(
    session: Session, host: str, port: int, tags: int, once: bool, directory: Path | None, force: bool
) -> None:  # fmt: skip
    """Serve the queue's metrics at http://HOST:PORT/metrics until Ctrl-C or SIGTERM.

    While the queue cannot be read, or is not there yet, a scrape says queue_core_up 0 and the reason is on standard
    error. Ended by SIGTERM the exit code is 0.

    \b
    Examples:
      queue-core metrics --port 9464
      queue-core metrics --once | promtool check metrics
      queue-core metrics --write /etc/prometheus/rules
    """
    if directory is not None:
        if once:
            raise click.UsageError("--once and --write exclude each other")
        _write(directory, force)
        return
    if force:
        raise click.UsageError("--force goes with --write DIR")
    from queue_core.prometheus import QueueCollector  # first: it says what to install

    from prometheus_client import CollectorRegistry  # isort: skip

    collector = QueueCollector(session.open, tags=tags)
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        if once:
            _print(registry, collector)
        else:
            _serve(session, host, port, registry)
    finally:
        collector.close()


def _print(registry: "CollectorRegistry", collector: "QueueCollector") -> None:
    from prometheus_client import generate_latest

    click.echo(generate_latest(registry), nl=False)
    if collector.trouble is not None:
        raise collector.trouble


def _serve(session: Session, host: str, port: int, registry: "CollectorRegistry") -> None:
    """Serve until a signal comes."""
    from prometheus_client import start_http_server

    try:
        session.open().close()
    except (StoreGone, StoreBusy) as error:
        say(f"The queue cannot be read yet, scrapes say queue_core_up 0: {safe(str(error))}")
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        taken = "it is taken; choose another with --port" if error.errno == errno.EADDRINUSE else error.strerror
        raise click.UsageError(f"cannot serve at {host} port {port}: {taken}") from error
    numbers: list[int] = []
    ended = threading.Event()

    def listen(number: int) -> None:
        numbers.append(number)
        ended.set()

    with listening(listen):
        shown = f"[{host}]" if ":" in host else host
        say(f"Serving http://{shown}:{server.server_port}/metrics; Ctrl-C ends it.")
        while not ended.wait(1.0):  # a signal that comes just before a wait begins is heard after it
            pass
        server.shutdown()
        server.server_close()
        thread.join()
    if numbers[0] == signal.SIGINT:
        raise Interrupted(numbers[0])


def _write(directory: Path, force: bool) -> None:
    """Write the files of the package. None is written when one is there that somebody has changed."""
    data = resources.files("queue_core") / "data"
    wanted = {directory / name: (data / name).read_bytes() for name in FILES}
    there = {path: path.read_bytes() for path in wanted if path.exists()}
    changed = [path for path, content in there.items() if content != wanted[path]]
    if changed and not force:
        names = ", ".join(safe(str(path)) for path in changed)
        raise click.UsageError(f"{names} differs from what this version writes; nothing was written: add --force")
    directory.mkdir(parents=True, exist_ok=True)
    for path, content in wanted.items():
        if there.get(path) == content:
            say(f"{safe(str(path))} is as it should be.")
        else:
            path.write_bytes(content)
            say(f"{safe(str(path))} written.")
    say(
        f"In prometheus.yml name {FILES[1]} under rule_files, and a job that scrapes queue-core metrics; "
        f"import {FILES[0]} into Grafana."
    )
