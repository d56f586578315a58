"""The command line: its help, what is typed wrong, how it ends, and what only looks."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from terminal import NOBODY, Terminal, all_commands, ended, insist, kill_off, program, run
from waiting import until

from queue_core import Queue
from queue_core.cli import base, cli


@pytest.mark.parametrize("path", all_commands())
def test_every_command_and_option_has_help_and_an_example(path: str) -> None:
    shown = run(*path.split(), "--help").stdout
    assert "Example" in shown
    assert f"queue-core {path}" in shown
    assert all(param.help for param in all_commands()[path].params if isinstance(param, click.Option))


def examples() -> list[str]:
    texts = [cli.help or "", *(command.help or "" for command in all_commands().values())]
    return [line.strip() for text in texts for line in text.split("\n") if re.search(r"queue-core \w", line)]


@pytest.mark.parametrize("line", [line for line in examples() if not line.startswith(("Only", "uncounted"))])
def test_every_example_of_the_help_parses(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "`" in line:
        return  # a command that is named in a sentence
    (tmp_path / "jobs.py").write_text("def fetch(job): ...\ndef resize(job): ...\n")
    (tmp_path / "sites.ndjson").write_text("")
    (tmp_path / "new.json").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = shlex.split(line[line.index("queue-core") :])
    words = words[1 : next((i for i, word in enumerate(words) if word in ("|", "&&")), len(words))]
    if words[-1] == "redrive":
        words.append(NOBODY)  # by xargs
    path = max((path for path in all_commands() if words[: path.count(" ") + 1] == path.split()), key=len)
    rest = words[path.count(" ") + 1 :]
    with all_commands()[path].make_context(path, rest, obj=base.Session()) as context:
        assert context.args == []


def test_the_help_of_the_program_documents_exit_codes() -> None:
    shown = run("--help").stdout
    for code in ("0  done", "1  ", "2  ", "3  ", "4  ", "130"):
        assert code in shown
    assert all(path in shown for path in all_commands() if " " not in path)
    assert re.fullmatch(r"queue-core \d+\.\d+\.\d+\n", run("--version").stdout)


def test_without_a_queue_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, ""):
        monkeypatch.delenv("QUEUE_URL", raising=False) if value is None else monkeypatch.setenv("QUEUE_URL", value)
        error = run("stats", code=2).stderr
        assert "--url" in error
        assert "QUEUE_URL" in error


def test_the_url_counts_before_and_after_the_command_and_beats_the_environment(queue: Queue, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    run("--url", other, "push", "-", stdin="1\n2\n")
    assert json.loads(run("stats", "--url", other, "--json").stdout)["pending"] == 2
    assert json.loads(run("--url", other, "--json", "stats").stdout)["pending"] == 2
    assert json.loads(run("stats", "--json").stdout)["pending"] == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["redrve", NOBODY], "redrive"),
        (["tasks"], "--state"),
        (["tasks", "--state", "ded"], "'dead'"),
        (["tasks", "--state", "dead", "--limit", "0"], "1<=x<=10000"),
        (["tasks", "--state", "dead", "--after", "elsewhere"], "after"),
        (["get", "42"], "not a UUID"),
        (["redrive", "42"], "not a task's id"),
        (["redrive"], "--all"),
        (["redrive", NOBODY, "--all"], "not both"),
        (["redrive", NOBODY, "--tag", "acme"], "--all"),
        (["cancel", "--all"], "--tag TAG"),
        (["requeue", "--all-inflight", "--older-than", "5 minutes"], "5m"),
        (["requeue", "--all-inflight", "--older-than", "1.2.3"], "5m"),
        (["requeue", "--older-than", "5m", NOBODY], "--all-inflight"),
        (["dead-letter", NOBODY], "--reason"),
        (["cancel", NOBODY], "--reason"),
        (["purge", "--all"], "--reason"),
        (["purge", "--all", "--reason", " "], "--reason"),
        (["redrive", "--all", "--where", "x"], "not both"),
        (["redrive", "--where", "x", "--tag", "acme"], "tag:NAME"),
        (["redrive", "--where", "stat:dead"], "did you mean state?"),
        (["redrive", "--where", "error:timeout age:2h"], "(at character 18)"),
        (["redrive", "--all", "--rate", "0"], "x>0"),
        (["redrive", "--all", "--role", "root"], "'operator'"),
        (["purge", "--all", "--canary", "3"], "--canary"),
        (["requeue", "--all-inflight", "--dry-run"], "state:inflight"),
        (["requeue", "--all-inflight", "--where", "x"], "not both"),
        (["dead", "lst"], "list"),
        (["dead", "list", "tag:acme", "--where", "x"], "not both"),
        (["dead", "list", "(tag:acme"], "this ( has no )"),
        (["dead", "show", "42"], "not a UUID"),
        (["dead", "resolve", "xyz"], "16 hexadecimal digits"),
        (["dead", "move", NOBODY], "--to"),
        (["dead", "edit", NOBODY], "--payload"),
        (["dead", "edit", NOBODY, "--payload", "{"], "not JSON"),
        (["dead", "edit", NOBODY, "--payload", "NaN"], "null or text"),
        (["plan", "run", "x"], "not a valid integer"),
        (["plan", "make", "bogus", "--all"], "move-tag"),
        (["plan", "make", "redrive"], "--all"),
        (["plan", "make", "extend", "--all"], "extend needs ttl"),
        (["plan", "make", "redrive", "--all", "--ttl", "5m"], "takes no ttl"),
        (["plan", "make", "purge", "--all", "--canary", "3", "--reason", "x"], "nothing to do"),
        (["plan", "show", "1", "--outcome", "lost"], "'skipped'"),
        (["audit", "--since", "yesterday"], "5m"),
        (["configure", "acme", "--weight", "0"], "x>=1"),
        (["configure", "acme", "--max-inflight", "many"], "many"),
        (["configure", "--weight", "2"], "one tag"),
        (["configure", "acme", "--dead-retention", "30d"], "whole queue"),
        (["push", "missing.ndjson"], "missing.ndjson"),
        (["push", "-", "--tag", "a", "--tag-key", "b"], "not both"),
        (["work", "queue_core.census"], "module:function"),
        (["work", "no_such_module:handler"], "no module 'no_such_module'"),
        (["work", "queue_core.census:mesure"], "did you mean 'measure'"),
        (["work", "queue_core.census:HANDLER"], "not a function"),
        (["stats", "--watch", "0"], "too often"),
        (["--url", "redis://localhost", "stats"], "lmdb:///path"),
        (["demo", "--only", "clik"], "'click'"),
        (["tasks", "--state", "dead", "--tag", "a\udcff"], "lone surrogate"),
        (["journal", "--tag", "a\udcff"], "lone surrogate"),
        (["pause", "x" * 70_000], "65,535"),
    ],
)
def test_what_is_typed_wrong_is_answered_helpfully(queue: Queue, args: list[str], message: str) -> None:
    result = run(*args, code=2)
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("0", 0), ("1.5", 1.5), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400)],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert base.duration(text) == seconds


@pytest.mark.parametrize(
    "args",
    [["stats"], ["check"], ["tasks", "--state", "dead"], ["get", NOBODY], ["explain", NOBODY], ["journal"], ["pause"],
     ["redrive", "--all"], ["configure"], ["dead", "groups"], ["dead", "list"], ["plan", "list"], ["audit"]],
)  # fmt: skip
def test_looking_does_not_make_a_store(tmp_path: Path, args: list[str]) -> None:
    missing = tmp_path / "missing"
    result = run("--url", str(missing), *args, code=4)
    assert str(missing) in result.stderr
    assert not missing.exists()


# --- how a run ends ---


@pytest.mark.parametrize(("signals", "done"), [(1, ["step"]), (2, [])])
def test_a_signal_inside_a_step_waits_for_its_end_and_a_second_does_not(signals: int, done: list[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    did = []

    def steps() -> None:
        with base._signals():
            with base.step():
                for _ in range(signals):
                    os.kill(os.getpid(), signal.SIGINT)
                did.append("step")
            did.append("what comes after")

    with pytest.raises(base.Interrupted):
        steps()
    assert did == done
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_during_a_push_keeps_whole_batches(queue: Queue) -> None:
    process = program("push", "-", "--batch", "10")
    assert process.stdin is not None
    process.stdin.write("1\n" * 25)
    process.stdin.flush()
    until(lambda: queue.counts().pending == 20)
    insist(process, lambda: process.send_signal(signal.SIGINT))
    _, err = ended(process, 130)
    assert err == "Interrupted: 20 tasks pushed; nothing was pushed from line 21 on.\n"
    assert queue.counts().pending == 20


def test_ctrl_c_while_acting_on_many_leaves_each_task_whole(queue: Queue) -> None:
    kill_off(queue, 3_000)
    process = program("redrive", "--all", "--yes")
    until(lambda: queue.counts().pending > 10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    counts = queue.counts()
    assert counts.pending + counts.dead == 3_000
    assert process.returncode == 130, "it was through before the signal came"
    assert err == (
        "Go on: queue-core plan resume 1\nTake it back: queue-core plan undo 1\n"
        f"Interrupted: {counts.pending:,} of 3,000 tasks were redriven.\n"
    )
    assert (queue.plan(1).state, queue.plan(1).moved) == ("stopped", counts.pending)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_ctrl_c_ends_stats_watch(queue: Queue, flags: list[str]) -> None:
    process = program("stats", "--watch", "0.1", *flags)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = ended(process, 130)
    assert err == "Interrupted.\n"
    if flags:
        assert all(json.loads(line)["pending"] == 0 for line in out.splitlines())


def test_a_reader_that_leaves_is_no_error(queue: Queue) -> None:
    queue.push_many([("x" * 1_000, "t") for _ in range(2_000)])
    with program("journal", "--limit", "100000", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("{")
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(30) == 128 + signal.SIGPIPE


def test_output_that_cannot_be_written_is_one_line_of_words(queue: Queue) -> None:
    with open("/dev/full", "w") as full:
        _, err = ended(program("stats", stdout=full), 4)
    assert err == "Error: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_stop_nothing(queue: Queue, closed: str) -> None:
    command = f'"{sys.executable}" -m queue_core redrive --all {closed}'
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0
    assert subprocess.run(["sh", "-c", command.replace("redrive --all", "stats")], check=False).returncode == 0


def test_a_terminal_that_lacks_signs_gets_escapes(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "iso-8859-1")
    queue.push(1, tag="名é")
    out, _ = ended(program("stats", encoding="iso-8859-1"), 0)
    assert "\\u540dé" in out


@pytest.mark.parametrize(("answer", "code", "dead"), [("y\n", 0, 0), ("n\n", 1, 3), ("\n", 1, 3), ("\x03", 130, 3)])
def test_at_a_terminal_it_asks_and_names_the_count(queue: Queue, answer: str, code: int, dead: int) -> None:
    kill_off(queue, 3)
    with Terminal("redrive", "--all") as terminal:
        terminal.see("Redrive 3 dead tasks? [y/N]")
        assert "acme 3" in terminal.shown, "what was frozen is shown first"
        insist(terminal.process, lambda: terminal.enter(answer))
        terminal.end(code)
    assert queue.counts().dead == dead
    assert queue.plan(1).state == ("finished" if code == 0 else "stopped")
    assert ("not agreed to" in queue.plan(1).note) == bool(code)


def test_at_a_terminal_progress_is_shown_and_the_terminal_is_left_clean(queue: Queue, tmp_path: Path) -> None:
    file = tmp_path / "numbers.ndjson"
    file.write_text("1\n" * 20_000)
    control, terminal = pty.openpty()
    with program("push", str(file), stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        while b"20,000 tasks pushed." not in shown:
            shown += os.read(control, 10_000)
        assert process.wait(30) == 0
    os.close(control)
    bars = [float(part) for part in re.findall(rb"(\d+)%  line [\d,]+", shown)]
    assert bars == sorted(bars)
    assert len(bars) > 1
    assert shown.endswith(b"\r\x1b[K20,000 tasks pushed.\r\n")
    assert queue.counts().pending == 20_000


def test_the_program_starts_without_what_only_pages_need() -> None:
    code = "import sys, queue_core.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "click" in loaded
    assert not {"pandas", "numpy", "streamlit", "plotly", "lmdb", "asyncio"} & set(loaded)


def test_the_program_starts_without_what_only_some_commands_need() -> None:
    code = "import sys, queue_core.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "queue_core.cli.act" in loaded
    assert not {f"queue_core.{name}" for name in ("control", "query", "cli.dead", "cli.plan", "cli.audit")} & set(
        loaded
    )


def test_the_installed_command_is_the_module(queue: Queue) -> None:
    script = Path(sys.executable).with_name("queue-core")
    shown = subprocess.run([script, "stats", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout)["pending"] == 0
