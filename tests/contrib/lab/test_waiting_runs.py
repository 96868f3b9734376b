"""Pages and REST name a run that waits as waiting, and what it waits behind: each with one that really waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.contrib.lab.advisor.runs import KIND as ADVICE
from apps.contrib.lab.advisor.runs import request_advice
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.experiments.traces import KIND as READING
from apps.contrib.lab.experiments.traces import upload_trace
from apps.core import clock
from apps.policies.recompute_runs import KIND as RECOMPUTE
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.priorities.change_effect_runs import KIND as EFFECT
from apps.runs import services
from apps.runs.leases import Lease
from apps.runs.services import claim_run, enqueue_run
from apps.series.back_test_runs import request_back_test
from apps.series.runs import KIND as BUILD
from apps.series.runs import subject_of
from apps.usage.records.imports import KIND as IMPORT
from tests.pages.page import read
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
LOG = "; UnixStartTime: 1\n1 0 -1 3600 1 -1 -1 1 3600 -1 1 1 1 -1 1 1 -1 -1\n"
SPEC: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "hours": 24,
        "sites": [{"name": "s", "cpus": 10}],
        "all_users": {"load": 1.1},
    },
}


@pytest.fixture
def manager(computed: Site, client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: None)
    return sign_in(client, computed.admin)


def at_work(kind: str) -> Lease:
    """A run of this kind that a worker has begun."""
    run = enqueue_run(kind=kind, subject="policy:other", at=clock.now())
    lease = claim_run(at=clock.now() + timedelta(seconds=1), run_id=run.pk)
    assert lease is not None
    return lease


def actor_of(site: Site) -> Actor:
    return Actor(user=site.admin, via="page")


def api(client: Client, name: str, **names: Any) -> Any:
    answer = client.get(reverse(f"api:{name}", kwargs=names))
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_an_experiment_behind_advice(manager: Client, computed: Site) -> None:
    lease = at_work(ADVICE)
    made = create_experiment(policy_slug="grid", name="x", spec=SPEC, at=clock.now(), actor=actor_of(computed))
    page = reverse("pages:experiment", kwargs={"policy": "grid", "experiment": made.pk})
    shown = read(manager.get(page))
    assert shown.item("state").attributes["data-state"] == "queued"
    assert "It waits in its queue behind the measuring of a policy" in shown.item("waiting").text()
    assert "are read" not in shown.text("#experiment-now")
    listed = read(manager.get(reverse("pages:lab", kwargs={"policy": "grid"})))
    assert "behind the measuring of a policy" in listed.item("experiment").text()
    detail = api(manager, "experiment", policy="grid", experiment=made.pk)
    assert (detail["row"]["state"], detail["row"]["waiting"]["behind"]) == ("queued", ADVICE)
    assert api(manager, "run", run=made.preparing_id)["waiting"]["sentence"].startswith("It waits in its queue")
    preparing = claim_run(at=clock.now() + timedelta(seconds=1), run_id=made.preparing_id)
    assert preparing is not None
    shown = read(manager.get(page))
    assert shown.item("state").attributes["data-state"] == "preparing"
    assert not shown.has("[data-testid=waiting]")
    lease.finish({}, clock.now())


def test_advice_behind_daily_values(manager: Client, computed: Site) -> None:
    at_work(BUILD)
    request_advice(policy_slug="grid", at=clock.now(), actor=actor_of(computed))
    shown = read(manager.get(reverse("pages:algorithm", kwargs={"policy": "grid"})))
    assert "It waits in its queue behind the daily values of a policy" in shown.text("#advice-part")
    assert "steps" not in shown.text("#advice-part")
    assert api(manager, "policy-advice", policy="grid")["waiting"]["behind"] == BUILD


def test_daily_values_behind_advice(manager: Client, computed: Site) -> None:
    at_work(ADVICE)
    enqueue_run(kind=BUILD, subject=subject_of(computed.policy), at=clock.now())
    shown = read(manager.get(reverse("pages:convergence", kwargs={"policy": "grid"})))
    assert "It waits in its queue behind the measuring of a policy" in shown.text("#building")
    assert "0 % done" not in shown.text("#building")


def test_a_back_test_behind_an_effect(manager: Client, computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (clock.now() + timedelta(days=3)).isoformat())
    at_work(EFFECT)
    new = NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics/bob", "shares": 3}], reason="More for bob")
    draft = make_change_set(policy_slug="grid", new=new, at=clock.now(), actor=actor_of(computed))
    request_back_test(change_set_id=draft.pk, n_days=7, at=clock.now(), actor=actor_of(computed))
    shown = read(manager.get(reverse("pages:change-back-test", kwargs={"change_set": draft.pk})))
    assert "It waits in its queue behind the effect of a change set" in shown.text("#back-test-part")
    assert "are being computed" not in shown.text("#back-test-part")
    tested = api(manager, "changeset-back-test", policy="grid", change_set=draft.pk)
    assert (tested["state"], tested["waiting"]["behind"]) == ("asked", EFFECT)


def test_a_log_behind_an_import(manager: Client, computed: Site) -> None:
    at_work(IMPORT)
    trace = upload_trace(policy_slug="grid", name="a.swf", data=LOG.encode(), at=clock.now(), actor=actor_of(computed))
    row = next(each for each in api(manager, "experiment-traces", policy="grid")["results"] if each["id"] == trace.pk)
    assert (row["state"], row["waiting"]["behind"]) == ("waiting", IMPORT)
    shown = manager.get(reverse("pages:lab-new-logs", kwargs={"policy": "grid"}), headers={"HX-Request": "true"})
    assert "It waits in its queue behind an import" in read(shown).item("unread-log").text()


@pytest.mark.parametrize("kind", [READING, RECOMPUTE])
def test_a_run_by_its_number(manager: Client, kind: str) -> None:
    at_work(kind)
    run = enqueue_run(kind=kind, subject="policy:grid", at=clock.now())
    assert api(manager, "run", run=run.pk)["waiting"] == {
        "reason": "queue",
        "sentence": api(manager, "run", run=run.pk)["waiting"]["sentence"],
        "behind": kind,
        "place": 1,
    }
