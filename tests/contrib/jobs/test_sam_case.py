"""A policy's booked usage as a case of SAM's queue: against the snapshot, decided alike by command, REST and page."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.contrib.jobs.algorithms import solve_job_case
from apps.contrib.jobs.sam_cases import sam_case
from apps.core import clock
from apps.core.errors import NotFound
from apps.policies.services import change_settings
from apps.priorities.serving import store
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.priority_site import new_site


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    store.poll()
    return open_grid


def _case(path: str = "/", actor: Actor = COMMAND, **more: Any) -> dict[str, Any]:
    return sam_case(policy_slug=SLUG, path=path, actor=actor, at=clock.now(), **more)


def test_shares_are_targets_and_benefits_usage_of_the_newest_snapshot(grid: Grid) -> None:
    snapshot = store.newest(SLUG)
    for path in ("/", "/atlas"):
        case = _case(path)
        entries = {name: snapshot.tree.index_of_path(f"{path.rstrip('/')}/{name}") or 0 for name in case["shares"]}
        top = snapshot.tree.index_of_path(path) or 0
        assert sorted(entries.values()) == list(snapshot.tree.children(top))
        for name, i in entries.items():
            assert case["shares"][name] == snapshot.values.target[i]
            assert case["benefit"][name] == snapshot.values.usage[i]
        ledger = solve_job_case(case)["ledger"]["groups"]
        for name, i in entries.items():
            assert ledger[name]["fraction"] == pytest.approx(float(snapshot.values.actual[i]), rel=1e-12)


def test_a_job_of_the_most_underserved_group_goes_to_the_front(grid: Grid) -> None:
    case = _case("/atlas")
    ahead = {
        name: case["shares"][name] - case["benefit"][name] / sum(case["benefit"].values()) for name in case["shares"]
    }
    jobs = [{"id": name, "group": name, "cpus": 1, "run_s": 1} for name in ahead]
    answer = solve_job_case({**case, "jobs": jobs, "booked": "later"})["jobs"]
    assert {name: each["queue"] for name, each in answer.items()} == {
        name: "front" if points > 0 else "back" for name, points in ahead.items()
    }
    assert set(each["queue"] for each in answer.values()) == {"front", "back"}


def test_the_metric_is_the_benefit_function_if_each_resource_has_a_weight(grid: Grid) -> None:
    assert _case()["algorithm"] == {"name": "sam", "benefit": {"cpu_s": 1.0}}
    for weights, benefit in (({"cpu_s": 1, "gpu_s": 20}, {"cpu_s": 1.0, "gpu_s": 20.0}), ({"billing": 1}, None)):
        change_settings(
            policy_slug=SLUG, settings={"metric": {"weights": weights}}, reason="x", at=clock.now(), actor=COMMAND
        )
        grid.recompute()
        store.poll()
        assert _case()["algorithm"].get("benefit") == benefit


def test_command_rest_and_page_give_the_same_case(grid: Grid, client: Client, tmp_path: Path) -> None:
    jobs = [{"id": "j", "group": "bob", "cpus": 4, "run_s": 3600}]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(jobs))
    out = io.StringIO()
    call_command("sam_case", "--policy", SLUG, "--path", "/atlas", "--jobs", str(file), stdout=out)
    client.force_login(grid.admin)
    rest = client.get(f"/api/v1/policies/{SLUG}/sam-case", {"path": "/atlas"}).json()
    assert rest["jobs"] == []
    assert json.loads(out.getvalue()) == {**rest, "jobs": jobs}
    page = read(client.get("/jobs/", {"sam": SLUG, "path": "/atlas"}))
    assert json.loads(page.one("textarea").text()) == rest
    assert {row.attributes["data-key"] for row in page.all('[data-testid="ledger"]')} == set(rest["shares"])
    assert read(client.get("/jobs/")).has(f'a[href="?sam={SLUG}"]')


@pytest.mark.django_db
def test_children_of_an_inheriting_entry_are_groups_one_level_up() -> None:
    site = new_site()
    people = {"team": [{"name": "ann", "kind": "user", "shares": 3}, {"name": "ben", "kind": "user", "shares": 1}]}
    team = {"name": "team", "kind": "account", "shares": "parent", "children": people["team"]}
    site.publish(
        [{"name": "open", "kind": "account", "shares": 1, "children": [team]}], {"algorithm": {"name": "slurm-classic"}}
    )
    site.map()
    site.recompute()
    store.poll()
    case = sam_case(policy_slug=site.slug, path="/open", actor=COMMAND, at=clock.now())
    assert case["shares"] == {"team/ann": 0.75, "team/ben": 0.25}
    with pytest.raises(NotFound):
        sam_case(policy_slug=site.slug, path="/open/team", actor=COMMAND, at=clock.now())


def test_missing_or_invisible_input_is_refused(grid: Grid, client: Client, tmp_path: Path) -> None:
    for path in ("/nobody", "/atlas/alice"):
        with pytest.raises(NotFound):
            _case(path)
    client.force_login(grid.admin)
    assert client.get(f"/api/v1/policies/{SLUG}/sam-case", {"path": "/nobody"}).status_code == 404
    with pytest.raises(CommandError):
        call_command("sam_case", "--policy", SLUG, "--jobs", str(tmp_path / "none.json"))
    file = tmp_path / "jobs.json"
    file.write_text('{"id": 1}')
    with pytest.raises(CommandError):
        call_command("sam_case", "--policy", SLUG, "--jobs", str(file))
