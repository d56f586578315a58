"""The command line: push, work, look, act. Data goes to standard output, words to standard error."""

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from queue_core.cli import act, backup, fairness, feed, look, metrics, run, series, settings
from queue_core.cli.base import Cli, json_option, url_option


class Later(click.Command):
    """A command that is imported from the module of its name when it is called: the others start no slower for it."""

    def __init__(self, name: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._module = f"queue_core.cli.{name}"

    @property
    def real(self) -> click.Command:
        """The command itself."""
        command: click.Command = getattr(import_module(self._module), self._module.rpartition(".")[2])
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self.real.make_context(info_name, args, parent, **extra)


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version  # takes longer to import than most commands run

        click.echo(f"queue-core {version('queue_core')}")
        ctx.exit()


@click.group(cls=Cli, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@url_option
@json_option
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli() -> None:
    """A durable task queue, fair between tags.

    The queue is named by --url or by QUEUE_URL: lmdb:///var/lib/app/queue, a path, or files:///var/lib/app/queue (a
    readable file per task). Only push, work, demo and configure make a store that is not there.

    Data goes to standard output, words to standard error. Exit codes:

    \b
      0  done
      1  done in part, or something was found: bad lines, tasks that did not move, findings of check
      2  the command line is wrong, or a value on it
      3  no such task, or its state, or your role, does not allow it
      4  the store or the disk cannot do it now: gone, busy, full, corrupt
      130, 143  ended by Ctrl-C, by SIGTERM; what was said to be done is done, nothing is half done

    \b
    Examples:
      export QUEUE_URL=lmdb:///var/lib/app/queue
      queue-core push sites.ndjson --tag-key site
      queue-core work jobs:fetch --processes 2
      queue-core stats --watch
      queue-core dead groups
    """


for command in (
    feed.push, run.work, run.demo, look.stats, look.list_tasks, look.get, look.explain, look.journal, look.check,
    act.requeue, act.dead_letter, act.redrive, act.cancel, act.purge, settings.pause, settings.resume,
    settings.configure, series.series, metrics.metrics, fairness.fairness, backup.take, backup.Restore(act.restore),
    backup.look_into, backup.read_wreck,
):  # fmt: skip
    cli.add_command(command)
for later in (
    Later("dead", "What died and why: look, edit, redrive, purge, restore."),
    Later("plan", "Actions on many tasks: make, look, run, stop, resume, undo."),
    Later("audit", "Who did what, when, why, and what came of it."),
    Later("report", "A notebook run on the queue, as one HTML file."),
):
    cli.add_command(later)


def main() -> NoReturn:
    """The program queue-core."""
    cli.main(sys.argv[1:], "queue-core")
