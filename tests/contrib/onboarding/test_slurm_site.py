"""A real site of Slurm, from its dump, configuration and log to the numbers that its sshare prints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.accounts.actor import COMMAND, SYSTEM
from apps.core import clock
from apps.priorities.models import Snapshot
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.selectors import open_view
from apps.priorities.selectors.overview import overview_of
from apps.runs.services import work_run_now
from apps.usage.models import Record
from apps.usage.services import NewSource, make_source

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-23T07:53:00Z")  # after the capture


def command(*words: object) -> str:
    out = io.StringIO()
    call_command(*map(str, words), stdout=out, stderr=out)
    return out.getvalue()


def values_of_sshare(text: str) -> dict[str, tuple[float, float]]:
    """Usage and factor of each user, by path."""
    header, *rows = (line.split("|") for line in text.splitlines())
    found, accounts = {}, [""]
    for row in rows:
        depth = len(row[0]) - len(row[0].lstrip())
        line = dict(zip(header, row, strict=True))
        if not line["User"]:
            accounts[max(depth, 1) :] = [f"{accounts[depth - 1]}/{line['Account'].strip()}"] if depth else []
        else:
            path = accounts[depth - 1] if depth > 1 else ""
            found[f"{path}/{line['User']}"] = float(line["RawUsage"]), float(line["FairShare"])
    return found


@pytest.mark.parametrize("log", ["sacct.txt", "sacct.json"])
def test_usage_and_factors_equal_sshare_with_nothing_unmapped(golden_dir: Path, log: str) -> None:
    folder = golden_dir / "slurm/charged"
    make_source(NewSource(slug="c1", name="c1", namespace="c1"), at=clock.now(), actor=COMMAND)
    given = ("--policy", "c1", "--format", "sacctmgr", folder / "dump.cfg", "--slurm-config", folder / "config.txt")
    result = command("import_policy", *given, "--make", "--map", "--publish", "--reason", "As Slurm has it")
    assert "1 mapping rule added" in result
    format = "sacct" if log == "sacct.txt" else "sacct-json"
    command("import_usage", "--source", "c1", "--format", format, folder / log)
    assert Record.objects.count() == 6  # both runs of the requeued job
    run = work_run_now(request_recompute(policy_slug="c1", at=clock.now(), actor=COMMAND).pk)
    assert Snapshot.objects.filter(pk=run.result["snapshot"]).exists()
    view = open_view(policy_slug="c1", actor=SYSTEM, at=None)
    assert view.usage_unit == "billing_s"
    rows = (view.row(i, position=(1, 1)) for i in range(1, len(view.tree)) if not view.tree.n_children[i])
    found = {row.path: (row.usage, row.factor) for row in rows}
    wanted = values_of_sshare((folder / "sshare.txt").read_text())
    assert set(found) == set(wanted)
    for path, (usage, factor) in wanted.items():
        assert found[path] == pytest.approx((usage, factor), rel=0, abs=1e-6), path
    overview = overview_of(open_view(policy_slug="c1", actor=SYSTEM))
    assert overview.n_unmapped == 0
