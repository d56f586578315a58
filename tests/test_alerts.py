"""Alert rules and dashboard: every alert fires when it should and only then; every name in them is exported."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Group
from prometheus_client import CollectorRegistry

from queue_core import Queue
from queue_core.cli import cli
from queue_core.prometheus import QueueCollector

DATA = Path(str(resources.files("queue_core"))) / "data"
RULES = {
    rule["alert"]: rule for rule in yaml.safe_load((DATA / "queue-core-alerts.yml").read_text())["groups"][0]["rules"]
}
DASHBOARD = json.loads((DATA / "queue-core-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGET = {"job": "queues", "instance": "mail:9464"}
FOREIGN = {"up": set(), "ALERTS": {"alertname", "alertstate"}}  # what Prometheus itself makes


@dataclass
class Case:
    """Series as promtool writes them (a sample a minute), and when the alert fires on them: minutes, or never."""

    alert: str
    series: dict[str, str]
    quiet: int  # the last minute in which it does not fire
    fires: int | None  # a minute in which it does
    labels: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    begins: str = ""  # of the description, where that asks for a tag


CASES = [
    Case(
        "QueueCoreExporterDown", {"queue_core_up": "1x10 _x20", "up": "1x10 0x20"}, 15, 17,
        summary="The metrics of the queue at mail:9464 have stopped",
    ),
    Case("QueueCoreExporterDown", {"up": "0x30"}, 30, None),  # it never exported a queue
    Case(
        "QueueCoreUnreadable", {"queue_core_up": "1x10 0x20"}, 12, 13,
        summary="The queue at mail:9464 cannot be read",
    ),
    Case("QueueCoreUnreadable", {"queue_core_up": "1x30"}, 30, None),
    Case(
        "QueueCoreNoWorker",
        {"queue_core_backlog_tasks": "7x30", "queue_core_paused_backlog_tasks": "2x30",
         'queue_core_workers{state="running"}': "1x10 0x20", 'queue_core_workers{state="lost"}': "0x10 1x20",
         "queue_core_leases_total": "0+10x10 100x20"}, 19, 21,
        summary="Nobody works on the queue at mail:9464; tasks waiting: 5",
    ),
    Case(  # no worker reports, but somebody leases
        "QueueCoreNoWorker",
        {"queue_core_backlog_tasks": "7x30", "queue_core_paused_backlog_tasks": "0x30",
         'queue_core_workers{state="running"}': "0x30", "queue_core_leases_total": "0+10x30"}, 30, None,
    ),
    Case(  # all that waits is paused
        "QueueCoreNoWorker",
        {"queue_core_backlog_tasks": "7x30", "queue_core_paused_backlog_tasks": "7x30",
         'queue_core_workers{state="running"}': "0x30", "queue_core_leases_total": "0x30"}, 30, None,
    ),
    Case(
        "QueueCoreOldestWait",
        {"queue_core_oldest_unpaused_wait_seconds": "0+60x30",
         'queue_core_tag_oldest_wait_seconds{tag="acme"}': "0+60x30",
         'queue_core_tag_oldest_wait_seconds{tag="calm"}': "9x30",
         'queue_core_tag_oldest_wait_seconds{tag="held"}': "0+90x30", 'queue_core_tag_paused{tag="held"}': "1x30",
         'queue_core_tag_paused{tag="acme"}': "0x30"}, 10, 12,
        summary="A task at mail:9464 has waited 12m 0s", begins="The longest wait is in tag acme. ",
    ),
    Case("QueueCoreOldestWait", {"queue_core_oldest_unpaused_wait_seconds": "300x30"}, 30, None),
    Case("QueueCoreOldestWait", {"queue_core_oldest_unpaused_wait_seconds": "400x4 _x20"}, 30, None),
    Case(
        "QueueCoreTagStarved",
        {"queue_core_longest_unserved_seconds": "0+60x60", "queue_core_round_serves": "600x60",
         "queue_core_leases_total": "0+60x60"}, 24, 27,  # a round takes ten minutes
        summary="A tag at mail:9464 was not served for 27m 0s while others were",
    ),
    Case(  # a large ring: a round takes longer
        "QueueCoreTagStarved",
        {"queue_core_longest_unserved_seconds": "0+60x60", "queue_core_round_serves": "6000x60",
         "queue_core_leases_total": "0+60x60"}, 60, None,
    ),
    Case(  # many rounds, but no long time
        "QueueCoreTagStarved",
        {"queue_core_longest_unserved_seconds": "600x60", "queue_core_round_serves": "6x60",
         "queue_core_leases_total": "0+60x60"}, 60, None,
    ),
    Case(  # nobody is served
        "QueueCoreTagStarved",
        {"queue_core_longest_unserved_seconds": "0+60x60", "queue_core_round_serves": "6x60",
         "queue_core_leases_total": "60x60"}, 60, None,
    ),
    Case(
        "QueueCoreDeadLettersGrowing",
        {'queue_core_deaths_total{reason="nacked"}': "5x20 5+1x20",
         'queue_core_deaths_total{reason="expired"}': "0x20 0+1x20",
         'queue_core_deaths_total{reason="dead_lettered"}': "0x60",
         'queue_core_tag_deaths_total{reason="nacked",tag="acme"}': "0x20 0+1x20",
         'queue_core_tag_deaths_total{reason="nacked",tag="quiet"}': "0x60"}, 24, 41,
        summary="30 tasks died at mail:9464 in 15 minutes", begins="Most of them in tag acme. ",
    ),
    Case(
        "QueueCoreDeadLettersGrowing",
        {'queue_core_deaths_total{reason="nacked"}': "1000x20 1000+0.5x40"}, 60, None,
    ),
    Case(
        "QueueCoreLeasesExpiring",
        {'queue_core_attempts_total{outcome="expired"}': "3x20 3+1x20",
         'queue_core_attempts_total{outcome="acked"}': "0+99x40"}, 24, 41, {"outcome": "expired"},
        summary="15 leases ran out at mail:9464 in 15 minutes",
    ),
    Case("QueueCoreLeasesExpiring", {'queue_core_attempts_total{outcome="nacked"}': "0+99x40"}, 40, None),
    Case(
        "QueueCoreStoreNearlyFull",
        {"queue_core_store_used_bytes": "70+1x30", "queue_core_store_limit_bytes": "100x30"}, 15, 16,
        summary="The store at mail:9464 is 86% full",
    ),
    Case("QueueCoreStoreNearlyFull", {"queue_core_store_used_bytes": "70+9x30"}, 30, None),  # no limit
    Case(
        "QueueCorePausedForLong", {"queue_core_paused_backlog_tasks": "0x10 3x300"}, 250, 252,
        summary="A pause at mail:9464 has held tasks up for 4 hours, 3 now",
    ),
    Case("QueueCorePausedForLong", {"queue_core_paused_backlog_tasks": "3x200 0x10 3x200"}, 400, None),
]  # fmt: skip


def series_name(name: str) -> str:
    """With the labels of the target that was scraped."""
    target = ",".join(f'{key}="{value}"' for key, value in TARGET.items())
    return name.replace("{", f"{{{target},") if "{" in name else f"{name}{{{target}}}"


def promtool_test(promtool: str, where: Path, case: Case) -> None:
    rule = RULES[case.alert]
    annotations = rule["annotations"]
    description = case.begins + re.sub(r"\{\{(?!.?\$labels).*\}\}", "", annotations["description"], flags=re.DOTALL)
    labels = TARGET | rule["labels"] | case.labels
    expected = {
        "summary": case.summary, "description": description.replace("{{ $labels.instance }}", TARGET["instance"]),
    }  # fmt: skip
    checks: list[dict[str, Any]] = [{"alertname": case.alert, "eval_time": f"{case.quiet}m", "exp_alerts": []}]
    if case.fires is not None:
        alerts = [{"exp_labels": labels, "exp_annotations": expected}]
        checks.append({"alertname": case.alert, "eval_time": f"{case.fires}m", "exp_alerts": alerts})
    series = [{"series": series_name(name), "values": values} for name, values in case.series.items()]
    tests = {
        "rule_files": [str(DATA / "queue-core-alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": checks}],
    }
    (where / "test.yml").write_text(json.dumps(tests))  # JSON is YAML
    done = subprocess.run([promtool, "test", "rules", "test.yml"], capture_output=True, text=True, cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}-{'fires' if case.fires else 'quiet'}")
def test_an_alert_fires_when_it_should_and_only_then(promtool: str, tmp_path: Path, case: Case) -> None:
    promtool_test(promtool, tmp_path, case)


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    assert {case.alert for case in CASES if case.fires is not None} == set(RULES)
    assert {case.alert for case in CASES if case.fires is None} == set(RULES)


def test_promtool_takes_the_rules(promtool: str) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", str(DATA / "queue-core-alerts.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_every_alert_says_what_is_wrong_and_names_commands_that_exist() -> None:
    assert isinstance(cli, Group)
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
        for name, options in re.findall(r'"queue-core (\S+?)((?: \S+?)*)"', rule["annotations"]["description"]):
            command = cli.commands[name]
            known = {option for parameter in command.params for option in parameter.opts}
            assert {option for option in options.split() if option.startswith("--")} <= known
    text = " ".join(rule["annotations"]["description"] for rule in RULES.values())
    assert {"stats", "tasks", "redrive", "resume"} <= set(re.findall(r'"queue-core (\w+)', text))


# --- every name is one that is exported -----------------------------------------------------------


@pytest.fixture
def exported(queue: Queue) -> dict[str, set[str]]:
    """Names of samples with their labels, of a queue that has everything."""
    queue.push(0, tag="acme")
    queue.configure(max_inflight=9, max_pending=9, dead_retention=9)
    queue.configure("acme", max_inflight=9, max_pending=9)
    registry = CollectorRegistry()
    collector = QueueCollector(queue)
    registry.register(collector)
    names: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    for name in ("used", "file", "limit"):  # which a store in memory does not tell
        names[f"queue_core_store_{name}_bytes"] = set()
    assert names.keys() >= {name for family in collector.describe() if family.type == "gauge" for name in [family.name]}
    return names


def filled(expression: str) -> str:
    """An expression of the dashboard as Grafana sends it."""
    for name, value in {"$__rate_interval": "5m", "$job": ".+", "$instance": ".+", "$tag": ".+"}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def expressions() -> Iterator[tuple[str, str, list[str]]]:
    """(where, PromQL, labels that a legend names) of rules, their templates, panels, annotations and variables."""
    for name, rule in RULES.items():
        yield name, rule["expr"], []
        for query in re.findall(r'printf "([^"]+)" ', " ".join(rule["annotations"].values())):
            if "queue_core" in query:
                yield f"{name}, template", query.replace("%q", '"x"'), ["tag"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], filled(target["expr"]), re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    for annotation in DASHBOARD["annotations"]["list"][1:]:
        yield annotation["name"], filled(annotation["expr"]), re.findall(r"\{\{(\w+)\}\}", annotation["titleFormat"])
    for variable in DASHBOARD["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
        assert found is not None
        yield variable["name"], filled(found[1]), [found[2]]


@pytest.mark.parametrize(("where", "expression", "legend"), list(expressions()))
def test_names_and_labels_are_exported(
    exported: dict[str, set[str]], where: str, expression: str, legend: list[str]
) -> None:
    names = exported | FOREIGN
    used = re.findall(r"\b((?:queue_core_|up\b|ALERTS\b)\w*)(?:\{([^}]*)\})?", expression)
    assert used
    known = set(TARGET)
    for name, matchers in used:
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert name in names, f"{where}: {name} is not exported"
        assert labels <= names[name] | set(TARGET), f"{where}: {name} has no {labels - names[name]}"
        known |= names[name]
    for clause in re.findall(r"\b(?:by|without|on|group_left|ignoring) \(([^)]*)\)", expression):
        assert {label.strip() for label in clause.split(",") if label.strip()} <= known, where
    assert set(legend) <= known, where


def test_promtool_parses_every_expression(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"checked:{number}", "expr": expression}
        for number, (where, expression, _) in enumerate(expressions())
        if "alert" not in where
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", "rules.yml"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


# --- the dashboard -------------------------------------------------------------------------------


def test_what_the_alerts_watch_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    for name, rule in RULES.items():
        watched = set(re.findall(r"queue_core_\w+", rule["expr"]))
        assert watched <= set(re.findall(r"queue_core_\w+", shown)), name


def test_the_dashboard_is_well_formed() -> None:
    assert DASHBOARD["schemaVersion"] >= 41
    assert "id" not in DASHBOARD, "Grafana gives it"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert not covered & cells, panel["title"]
        cells |= covered
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["type"] in ("stat", "timeseries"), "never a pie"
        for target in [panel, *panel["targets"]]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters))
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "job", "instance", "tag"}
    assert variables["datasource"]["type"] == "datasource"
