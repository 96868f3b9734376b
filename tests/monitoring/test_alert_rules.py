"""Prometheus' own tool reads the shipped rules, and its unit tests take every alert from quiet to firing to over."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from apps.core.code_paths import REPOSITORY
from tests.monitoring.daemons import RULES, program, rules_without_waiting

HERE = Path(__file__).parent
UNIT_TESTS = sorted(HERE.glob("*.test.yml"))


def promtool(*arguments: str | Path) -> str:
    command = [program("promtool", "prometheus"), *map(str, arguments)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names_of(rules: str) -> list[str]:
    return [rule["alert"] for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]


def test_the_rules_are_valid_for_prometheus() -> None:
    rules = names_of(RULES.read_text(encoding="utf-8"))
    assert f"{len(rules)} rules found" in promtool("check", "rules", RULES)


@pytest.mark.deep
def test_each_alert_waits_fires_and_resolves() -> None:
    found = promtool("test", "rules", *(path.name for path in UNIT_TESTS))
    assert found.count("SUCCESS") == len(UNIT_TESTS) == 2


def test_each_alert_has_such_a_test() -> None:
    cases: dict[str, list[bool]] = {}
    for path in UNIT_TESTS:
        tests: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for case in (case for test in tests for case in test["alert_rule_test"]):
            cases.setdefault(case["alertname"], []).append(bool(case["exp_alerts"]))
    rules = names_of(RULES.read_text(encoding="utf-8"))
    assert sorted(cases) == sorted(rules)
    for name, fires in cases.items():
        assert fires[:3] == [False, True, False], name


def test_the_copy_without_waiting_differs_in_nothing_else() -> None:
    shipped, copy = yaml.safe_load(RULES.read_text(encoding="utf-8")), yaml.safe_load(rules_without_waiting())
    assert {rule["for"] for rule in copy["groups"][0]["rules"]} == {"0s"}
    for group in shipped["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
    assert copy == shipped


def test_each_alert_has_a_paragraph_what_to_do() -> None:
    page = (REPOSITORY / "docs/monitoring.md").read_text(encoding="utf-8")
    section = page.partition("\n## What to do\n")[2].partition("\n## ")[0]
    _before, *parts = re.split(r"^### (.+)\n", section, flags=re.MULTILINE)
    paragraphs = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(paragraphs) == names_of(RULES.read_text(encoding="utf-8"))
    assert all(len(text.split()) >= 25 for text in paragraphs.values())
