"""Prometheus and Alertmanager of Debian on loopback, with the rules of docs/monitoring that don't wait."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.stack import eventually, free_port
from tests.material import missing

DOCS = Path(__file__).resolve().parents[2] / "docs"
RULES = DOCS / "monitoring" / "alerts.yml"
_PATIENCE_S = 60.0
_ASKED_EVERY = "500ms"
_PROMETHEUS = """
global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}
rule_files: [{rules}]
alerting:
  alertmanagers:
    - static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]
scrape_configs:
  - job_name: fairshare
    static_configs: [{{targets: ["{target}"]}}]
"""
_ALERTMANAGER = """
route: {receiver: nobody, group_wait: 0s, group_interval: 1s}
receivers: [{name: nobody}]
"""


def program(name: str, package: str) -> str:
    return shutil.which(name) or missing(f"no {name}", f"apt-get install {package}")


def rules_without_waiting() -> str:
    """As docs/monitoring.md shows an administrator how to make them, by its very command."""
    page = (DOCS / "monitoring.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^sed -E '(.+)' alerts\.yml > alerts-now\.yml$", page, re.M)
    done = subprocess.run(
        ["sed", "-E", script, RULES.name], cwd=RULES.parent, capture_output=True, text=True, check=True
    )
    return done.stdout


@dataclass(frozen=True)
class Watchers:
    """What both daemons say by their own APIs."""

    prometheus: int
    alertmanager: int

    def firing(self) -> set[str]:
        """Names of active alerts, as Alertmanager has them."""
        return {alert["labels"]["alertname"] for alert in self._ask(self.alertmanager, "api/v2/alerts?active=true")}

    def expect(self, *alerts: str) -> None:
        """These alerts fire in Alertmanager, and no other one does."""
        eventually(
            lambda: self.firing() == set(alerts),
            f"these alerts and no others: {sorted(alerts)}",
            within_s=_PATIENCE_S,
            describe=lambda: f"firing: {sorted(self.firing())}",
        )

    def scrapes(self, health: str) -> bool:
        targets = self._ask(self.prometheus, "api/v1/targets")["data"]["activeTargets"]
        return [target["health"] for target in targets] == [health]

    @staticmethod
    def _ask(port: int, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def watching(target: str, folder: Path) -> Iterator[Watchers]:
    """target: host and port that serve /metrics. Both daemons are stopped afterwards."""
    programs = program("prometheus", "prometheus"), program("prometheus-alertmanager", "prometheus-alertmanager")
    found = Watchers(free_port(), free_port())
    rules = folder / "alerts-now.yml"
    rules.write_text(rules_without_waiting(), encoding="utf-8")
    (folder / "prometheus.yml").write_text(
        _PROMETHEUS.format(every=_ASKED_EVERY, rules=rules, alertmanager=found.alertmanager, target=target)
    )
    (folder / "alertmanager.yml").write_text(_ALERTMANAGER)
    alertmanager = [
        programs[1],
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{found.alertmanager}",
        "--cluster.listen-address=",
    ]
    prometheus = [
        programs[0],
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{found.prometheus}",
    ]
    with _running(alertmanager, folder, found.alertmanager), _running(prometheus, folder, found.prometheus):
        eventually(lambda: found.scrapes("up"), "Prometheus scrapes the service")
        yield found


@contextmanager
def _running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    log = folder / f"{Path(command[0]).name}.output"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: _is_ready(port) or process.poll() is not None, f"{command[0]} is ready")
        assert process.poll() is None, log.read_text()[-2000:]
        yield
    finally:
        process.terminate()
        process.wait(20)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
