"""The documentation is executed: an example that is not true fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_the_python_examples_run(number: int, tmp_path: Path) -> None:
    code = blocks("python")[number].replace("/tmp/", f"{tmp_path}/")
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("number", range(2))
def test_the_shell_examples_run(number: int, tmp_path: Path) -> None:
    commands = [block for block in blocks("sh") if "queue-core" in block][number]
    run = subprocess.run(
        ["sh", "-euc", commands.replace("/tmp/", f"{tmp_path}/")],
        check=False, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "example.org" in run.stdout


def test_what_the_documents_name_is_there() -> None:
    documents = [README, (ROOT / "ARCHITECTURE.md").read_text()]
    for target in re.findall(r"\]\((?!http)([^)]+)\)", "".join(documents)):
        assert (ROOT / target).exists(), target
    targets = set(re.findall(r"(?<!plan )make (\w+)", README)) - {"copies"}
    rules = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets <= rules
    for module in re.findall(r"`(\w+(?:/\w*)+\.py)`", documents[1]):
        assert any((ROOT / base / module).exists() for base in ("", "queue_core")), module
