"""Sites from the field, from their files by the operator's commands to the ranks that are served."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command

from apps.accounts.actor import COMMAND, SYSTEM
from apps.core import clock
from apps.policies.publishing.direct import publish_operations
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.selectors import open_view
from apps.runs.services import work_run_now
from apps.usage.models import Record, Source
from apps.usage.quality.findings import list_data_issues
from apps.usage.services import NewSource, make_source

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-28T12:00:00Z")  # after the jobs


def command(*words: object) -> str:
    out = io.StringIO()
    call_command(*map(str, words), stdout=out, stderr=out)
    return out.getvalue()


def served() -> dict[str, tuple[float | None, int | None]]:
    """Usage and rank of each user by name, after a recompute."""
    work_run_now(request_recompute(policy_slug="c1", at=clock.now(), actor=COMMAND).pk)
    view = open_view(policy_slug="c1", actor=SYSTEM, at=None)
    leaves = [i for i in range(1, len(view.tree)) if not view.tree.n_children[i]]
    rows = [view.row(i, position=(1, 1)) for i in leaves]
    return {row.path.rpartition("/")[2]: (row.usage, row.rank) for row in rows}


LOGS = ("s11_other.sacct", "s11_resizing.sacct")


@pytest.mark.parametrize("logs", [LOGS, LOGS[::-1]])
def test_a_resized_job_ranks_by_what_its_parts_used_in_every_approach(golden_dir: Path, logs: tuple[str, ...]) -> None:
    field = golden_dir / "field"
    make_source(NewSource(slug="c1", name="c1"), at=clock.now(), actor=COMMAND)
    given = ("--policy", "c1", "--format", "sacctmgr", "--slurm-config", field / "nodecay.conf.txt")
    command("import_policy", *given, "--make", "--publish", "--reason", "x", "--map", "c1", field / "s11_tree.cfg")
    for name in logs:
        command("import_usage", "--source", "c1", field / name)
    command("import_usage", "--source", "c1", field / "s11_resizing.json")
    assert list(Record.objects.exclude(state="finished")) == []
    assert Record.objects.count() == 3
    for approach in ("historical", "active", "predictive"):
        change = {"op": "set_policy", "settings": {"approach": {"local": approach, "global": approach}}}
        publish_operations(policy_slug="c1", operations=[change], reason="x", at=clock.now(), actor=COMMAND)
        assert served() == {"u1": (460_800, 1), "u2": (1_000_000, 2)}, approach


@pytest.mark.parametrize("approach", ["active", "predictive"])
def test_jobs_whose_end_never_came_count_no_longer_than_they_ran_or_may(golden_dir: Path, approach: str) -> None:
    field = golden_dir / "field"
    make_source(NewSource(slug="c1", name="c1", time_zone="UTC"), at=clock.now(), actor=COMMAND)
    given = ("--policy", "c1", "--format", "csv", "--make", "--publish", "--reason", "x", "--map", "c1")
    command("import_policy", *given, field / "p02_tree.csv")
    command("import_usage", "--source", "c1", field / "p02_lost.acct")
    settings = {"approach": {"local": approach, "global": approach}, "window": {"aging": "none", "length_s": None}}
    change = {"op": "set_policy", "settings": settings}
    publish_operations(policy_slug="c1", operations=[change], reason="x", at=clock.now(), actor=COMMAND)
    assert served() == {"uma": (172_800, 1), "wyn": (180_000, 2), "vic": (216_000, 3)}
    found = list_data_issues(
        sources=list(Source.objects.all()), span=timedelta(days=28), at=clock.now(), zone=ZoneInfo("UTC"), actor=SYSTEM
    )
    assert found["c1"].n_overrun == 1


def test_jobs_aborted_or_lost_with_their_node_rank_by_what_they_used(vectors_dir: Path) -> None:
    make_source(NewSource(slug="c1", name="c1", time_zone="UTC"), at=clock.now(), actor=COMMAND)
    field = vectors_dir / "field4"
    given = ("--policy", "c1", "--format", "csv", "--make", "--publish", "--reason", "x", "--map", "c1")
    command("import_policy", *given, field / "b03_tree.csv")
    for name in ("b03_pbs_abort.acct", "b03_other.acct", "b37_old_running.acct"):
        command("import_usage", "--source", "c1", field / name)
    settings = {"approach": {"local": "active", "global": "active"}, "window": {"aging": "none", "length_s": None}}
    change = {"op": "set_policy", "settings": settings}
    publish_operations(policy_slug="c1", operations=[change], reason="x", at=clock.now(), actor=COMMAND)
    bob = 172_800 + 64 * 3600  # and a job of one hour, of which no line tells the end
    assert served() == {"ada": (100_800, 1), "bob": (bob, 2), "cyd": (1_000_000, 3)}
