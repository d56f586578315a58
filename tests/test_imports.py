"""Imports go one way: a module imports only what stands above it."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import queue_core
from queue_core.ledger import Counts, Totals

ROOT = Path(queue_core.__file__).parent
APP = ROOT.parent / "app"
ORDER = [
    "errors", "task", "groups", "plans", "rotation", "histogram", "forecast", "history", "ledger", "series", "spans",
    "snapshot", "fairness", "codec", "keys", "stores.base", "stores.engine", "stores.control", "stores.embedded",
    "stores.memory", "stores.lmdb", "stores.files", "stores", "check", "query", "redact", "queue", "", "aio",
    "backup", "control", "worker", "prometheus", "frames", "figures", "simulate",
    "census", "notebook", "cli", "__main__",
]  # fmt: skip
EVERYWHERE = {"errors", "task", "snapshot", "frames", "figures"}  # what all of the app may import
ACTING = {"control", "plans"}  # what the module of the app that acts may import as well


def parts(path: Path, base: Path) -> str:
    """The module's name inside the package: "" for the package itself."""
    return ".".join(path.relative_to(base).with_suffix("").parts).removesuffix("__init__").rstrip(".")


MODULES = {parts(path, ROOT): path for path in sorted(ROOT.rglob("*.py"))}


def imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, module inside queue_core, name) of every import of queue_core in the file, those in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "queue_core":
                    yield node.lineno, alias.name.removeprefix("queue_core").lstrip("."), ""
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            if (node.module or "").split(".")[0] == "queue_core":
                module = (node.module or "").removeprefix("queue_core").lstrip(".")
                for alias in node.names:
                    inner = f"{module}.{alias.name}".lstrip(".")
                    yield (node.lineno, inner, "") if inner in MODULES else (node.lineno, module, alias.name)


def rank(module: str) -> int:
    """Its position in the order, by the longest prefix that is listed."""
    names = module.split(".")
    for length in range(len(names), 0, -1):
        if ".".join(names[:length]) in ORDER:
            return ORDER.index(".".join(names[:length]))
    raise AssertionError(f"queue_core.{module} has no place in the order of imports")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_modules_above_it(module: str) -> None:
    upward = [
        f"{MODULES[module].name}:{line} imports queue_core.{other}"
        for line, other, _ in imported(MODULES[module])
        if rank(other) > rank(module)
    ]
    assert upward == []


def test_no_modules_import_each_other() -> None:
    graph = {module: {other for _, other, _ in imported(path)} - {module} for module, path in MODULES.items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


def test_only_the_data_module_of_the_app_opens_queues() -> None:
    found = [
        f"{path.relative_to(APP)}:{line} imports {name or module}"
        for path in sorted(APP.rglob("*.py"))
        for line, module, name in imported(path)
        if path != APP / "data.py"
        and (module not in EVERYWHERE if module else name in ("", "open_queue"))
        and not (path == APP / "control.py" and module in ACTING)
    ]
    assert found == []


def test_the_app_knows_no_store() -> None:
    """Neither a store nor a driver: only the data module asks what a store can do."""
    found = [
        f"{path.relative_to(APP)}:{node.lineno}"
        for path in sorted(APP.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and path != APP / "data.py"
        and any(
            name.startswith(("queue_core.stores", "lmdb"))
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        )
    ]
    assert found == []


GROUPING = {"groupby", "agg", "aggregate", "pivot", "pivot_table", "crosstab", "resample", "rolling", "value_counts"}
COUNTERS = {
    *Totals.__struct_fields__, *Counts.__struct_fields__, "backlog", "due", "expired", "selected", "moved", "skipped",
    "failed", "left", "done", "died",
}  # fmt: skip


def counted(node: ast.expr) -> bool:
    """Whether an expression is a counter as the queue gives it: ``snapshot.dead``, ``-tag.totals.acked``."""
    match node:
        case ast.Attribute(attr=name):
            return name in COUNTERS
        case ast.UnaryOp(operand=inner) | ast.Call(func=ast.Name("int" | "float" | "abs"), args=[inner]):
            return counted(inner)
    return False


def computed(node: ast.AST) -> bool:
    """Whether a page computes here: it groups a frame, or adds, subtracts, multiplies, divides or sums counters.

    Seen in the syntax tree: an operator with a counter right beside it, or ``sum`` over counters. What is done to a
    number that was put into a variable before is not seen.
    """
    match node:
        case ast.BinOp(left=left, right=right):
            return counted(left) or counted(right)
        case ast.AugAssign(target=target, value=value):
            return counted(target) or counted(value)
        case ast.Call(func=ast.Name("sum"), args=[ast.GeneratorExp(elt=item) | ast.ListComp(elt=item)]):
            return counted(item)
        case ast.Attribute(attr=name):
            return name in GROUPING
    return False


@pytest.mark.parametrize("path", sorted(APP.rglob("*.py")), ids=lambda path: path.relative_to(APP).as_posix())
def test_a_page_computes_nothing(path: Path) -> None:
    """What is read is no page: it says how many came and left between two reads."""
    if path.name in ("data.py", "listings.py"):
        return
    found = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if computed(node)}
    assert found == set()


@pytest.mark.parametrize(
    "code",
    [
        "a = snapshot.dead + 1", "a = 100 * tag.totals.acked / tag.totals.pushed", "a -= worker.done",
        "sum(tag.backlog for tag in tags)", "frame.groupby('tag').size()", "frame['error'].value_counts()",
        "f'{plan.selected - plan.moved:,}'", "a = int(tag.dead) % 7",
    ],
)  # fmt: skip
def test_what_a_page_must_not_compute_is_seen(code: str) -> None:
    assert any(map(computed, ast.walk(ast.parse(code))))


@pytest.mark.parametrize("code", ["f'{tag.dead:,}'", "a + b", "tag.dead > 0", "sum(tag.dead > 0 for tag in tags)"])
def test_what_a_page_may_do_is_let_pass(code: str) -> None:
    assert not any(map(computed, ast.walk(ast.parse(code))))


def test_the_core_imports_nothing_of_the_dashboard() -> None:
    for module in ("queue_core", "queue_core.cli", "queue_core.worker"):
        code = f"import sys, {module}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert not {"streamlit", "pandas", "plotly", "lmdb"} & set(done.stdout.split()), module
