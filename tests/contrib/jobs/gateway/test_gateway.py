"""SAM's gateway: decisions by the kept ledger, what each step books, repeats and contradictions."""

from __future__ import annotations

import io
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from apps.accounts.actor import SYSTEM
from apps.accounts.clock_watch import note_clock
from apps.accounts.models import AuditEvent
from apps.contrib.jobs.models import Job, Ledger, Received
from apps.policies.services import make_policy, publish_document
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.contrib.jobs.gateway.conftest import POLICY, Gateway
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site

STEPS = ("decide", "started", "finished", "cancelled")


@pytest.mark.paper("3.14", "3.2")
def test_every_decision_of_the_paper_s_vectors_by_rest(computed_site: Site, golden_dir: Path) -> None:
    """Of sam.json; each set of shares is a subtree, whose received benefit is set before the job is decided."""
    examples = json.loads((golden_dir / "sam/sam.json").read_text())["decisions"]["examples"]
    sets = {json.dumps(each["share"], sort_keys=True): each["share"] for each in examples}
    names = {text: f"case{number}" for number, text in enumerate(sets)}
    children = [
        {"name": names[text], "shares": 1, "children": [{"name": g, "shares": share} for g, share in shares.items()]}
        for text, shares in sets.items()
    ]
    make_policy(slug="sam", name="SAM", at=AT, actor=SYSTEM)
    publish_document(
        policy_slug="sam", document={"root": {"name": "sam", "children": children}}, reason="x", at=AT, actor=SYSTEM
    )
    work_run_now(request_recompute(policy_slug="sam", at=AT, actor=SYSTEM).pk)
    store.poll()
    gateway = Gateway(computed_site, "sam")
    assert len(examples) == 10
    for number, example in enumerate(examples):
        entry = names[json.dumps(example["share"], sort_keys=True)]
        gateway.set(entry=f"/{entry}", received=example["B"])
        found = gateway.step("decide", f"job{number}", group=example["group"], benefit=example["benefit"])
        assert (found["queue"], found["priority"]) == (example["queue"], 1 if example["queue"] == "front" else 0)
        assert found["fraction_after"] == pytest.approx(example["fraction_after"], rel=1e-12)
        assert found["share"] == pytest.approx(example["share"][example["group"]], rel=1e-12)
        assert gateway.received() == pytest.approx(example["B"]), "booked when it starts"


@pytest.mark.paper("3.5")
def test_a_priority_group_precedes_both_and_is_not_booked(gateway: Gateway) -> None:
    gateway.set(p_back=2, p_front=5, priority_groups={"daq": 7, "physics": 6})
    found = gateway.step("decide", "1", group="daq")
    assert (found["queue"], found["priority"], found["fraction_after"], found["benefit"]) == ("priority", 7, None, None)
    assert gateway.step("decide", "2", group="/physics", benefit=3.0)["priority"] == 6
    gateway.step("started", "2")
    assert gateway.step("finished", "2", benefit=9.0)["booked"] == 0
    found = gateway.step("decide", "3", group="biology", benefit=1.0)
    assert (found["queue"], found["priority"], found["share"]) == ("back", 2, 1.0), "alone, and never below its share"
    assert gateway.received() == {"biology": 0.0}


def test_the_group_of_an_account_follows_its_mapping(gateway: Gateway) -> None:
    gateway.set()
    account = {"user": "alice", "group": "physics"}
    assert gateway.step("decide", "1", account=account, benefit=1.0)["group"] == "physics"
    assert (
        gateway.step("decide", "2", account={"user": "newcomer", "group": "biology"}, benefit=1.0)["group"] == "biology"
    )
    assert refused(gateway.post("decide", "3", account={"user": "stranger"}, benefit=1.0))[::2] == (422, ["account"])
    assert refused(gateway.post("decide", "3", group="chemistry", benefit=1.0))[::2] == (422, ["group"])
    assert refused(gateway.post("decide", "3", benefit=1.0))[::2] == (422, ["group"])
    assert refused(gateway.post("decide", "3", group="physics", account=account))[::2] == (422, ["group"])


def test_a_weighted_sum_of_named_quantities(gateway: Gateway) -> None:
    gateway.set(benefit={"cpu_s": 2, "data_gb": 3}, booked_at="submit")
    quantities = {"cpus": 2, "run_s": 100, "data_gb": 10}
    assert gateway.step("decide", "1", group="physics", quantities=quantities)["benefit"] == 430.0
    assert gateway.received() == {"physics": 430.0, "biology": 0.0}
    gateway.step("started", "1")
    done = gateway.step("finished", "1", quantities={**quantities, "data_gb": 0})
    assert (done["benefit"], gateway.received()["physics"]) == (400.0, 400.0)
    lacking = gateway.post("decide", "2", group="physics", quantities={"cpus": 2})
    assert refused(lacking)[0] == 422
    assert "run_s" in lacking.json()["detail"]


def test_the_response_warns_of_queues_that_do_not_converge(gateway: Gateway) -> None:
    gateway.set()
    aging, arrival = gateway.step("decide", "1", group="physics", benefit=1.0)["notes"]
    assert "job ageing" in aging
    assert "order of arrival" in arrival
    assert gateway.caller.get(POLICY).json()["notes"] == [aging, arrival]


@pytest.mark.parametrize(
    ("booked_at", "decided", "started", "finished"),
    [("submit", 4.0, 4.0, 7.0), ("start", 0.0, 4.0, 7.0), ("end", 0.0, 0.0, 7.0)],
)
def test_when_the_benefit_is_booked(
    gateway: Gateway, booked_at: str, decided: float, started: float, finished: float
) -> None:
    gateway.set(booked_at=booked_at, received={"physics": 10.0})
    seen = []
    for step, more in (
        ("decide", {"group": "physics", "benefit": 4.0}),
        ("started", {}),
        ("finished", {"benefit": 7.0}),
    ):
        answer = gateway.step(step, "1", **more)
        seen.append(gateway.received()["physics"] - 10.0)
        assert answer["booked"] == seen[-1]
    assert seen == [decided, started, finished]


@pytest.mark.parametrize("booked_at", ["submit", "start", "end"])
@pytest.mark.parametrize("is_started", [False, True])
def test_a_cancelled_job_leaves_no_booking(gateway: Gateway, booked_at: str, is_started: bool) -> None:
    gateway.set(booked_at=booked_at, received={"physics": 10.0})
    gateway.step("decide", "1", group="physics", benefit=4.0)
    if is_started:
        gateway.step("started", "1")
    assert gateway.step("cancelled", "1")["booked"] == 0.0
    assert gateway.received()["physics"] == 10.0
    assert refused(gateway.post("finished", "1", benefit=1.0))[:2] == (409, "contradicts")
    status = gateway.post("started", "1").status_code
    assert status == (200 if is_started else 409), "a repeat, or news that can't be"
    assert gateway.received()["physics"] == 10.0


def test_a_running_benefit_counts_while_the_job_runs(gateway: Gateway) -> None:
    gateway.set(benefit="processes")
    gateway.step("decide", "1", group="physics", quantities={"processes": 8})
    assert gateway.received()["physics"] == 0.0
    gateway.step("started", "1")
    assert gateway.received()["physics"] == 8.0
    gateway.step("finished", "1")
    assert gateway.received()["physics"] == 0.0
    assert refused(gateway.admin.put(POLICY, {"benefit": "processes", "booked_at": "end"}))[::2] == (422, ["booked_at"])


@pytest.mark.parametrize(("is_started", "left"), [(True, 4.0), (False, 0.0)])
def test_a_job_that_never_ends_is_lost_and_keeps_its_booking_if_it_ran(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, is_started: bool, left: float
) -> None:
    gateway.set(booked_at="submit", lost_after_h=24)
    gateway.step("decide", "1", group="physics", benefit=4.0)
    if is_started:
        gateway.step("started", "1")
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=25)).isoformat())
    gateway.step("decide", "2", group="biology", benefit=1.0)
    assert gateway.received()["physics"] == left
    assert gateway.caller.get(POLICY).json()["jobs"]["lost"] == 1
    assert gateway.step("finished", "1", benefit=6.0)["booked"] == 6.0, "it came back after all"
    assert gateway.received()["physics"] == 6.0


def test_old_jobs_are_deleted_and_their_benefit_stays(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.set()
    gateway.step("decide", "1", group="physics", benefit=4.0)
    gateway.step("finished", "1", benefit=4.0)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=91)).isoformat())
    gateway.step("decide", "2", group="physics", benefit=4.0)
    assert list(Job.objects.values_list("job", flat=True)) == ["2"]
    assert gateway.received()["physics"] == 4.0


def test_every_step_is_idempotent(gateway: Gateway) -> None:
    gateway.set(booked_at="submit")
    sent: list[tuple[str, dict[str, Any]]] = [
        ("decide", {"group": "physics", "benefit": 4.0}),
        ("started", {}),
        ("finished", {"benefit": 7.0}),
    ]
    for at, (step, more) in enumerate(sent):
        first = gateway.step(step, "1", **more)
        books = gateway.received()
        for again, its in sent[: at + 1]:
            gateway.step(again, "1", **its)
        assert gateway.step(step, "1", **more) == first, "word for word"
        assert gateway.received() == books
    assert gateway.received()["physics"] == 7.0


def test_a_contradicting_repeat_is_refused_and_not_booked(gateway: Gateway) -> None:
    gateway.set(booked_at="submit")
    gateway.step("decide", "1", group="physics", benefit=4.0)
    for other in ({"group": "biology", "benefit": 4.0}, {"group": "physics", "benefit": 5.0}):
        assert refused(gateway.post("decide", "1", **other))[:2] == (409, "contradicts")
    gateway.step("finished", "1", benefit=7.0)
    assert refused(gateway.post("finished", "1", benefit=8.0))[:2] == (409, "contradicts")
    assert refused(gateway.post("cancelled", "1"))[:2] == (409, "contradicts")
    assert gateway.received()["physics"] == 7.0


def test_events_in_another_order(gateway: Gateway) -> None:
    gateway.set()
    assert refused(gateway.post("started", "1"))[:2] == (404, "not_found")
    gateway.step("decide", "1", group="physics", benefit=4.0)
    gateway.step("finished", "1", benefit=7.0)
    assert gateway.step("started", "1")["state"] == "finished"
    assert gateway.received()["physics"] == 7.0


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"entry": "/nowhere"}, "entry"),
        ({"entry": "/physics/alice"}, "entry"),
        ({"benefit": "wishes"}, "benefit"),
        ({"benefit": {"cpu_s": -1}}, "benefit.cpu_s"),
        ({"p_front": 0}, "p_back"),
        ({"priority_groups": {"daq": 1}}, "priority_groups.daq"),
        ({"received": {"chemistry": 1}}, "received.chemistry"),
        ({"lost_after_h": 0}, "lost_after_h"),
    ],
)
def test_invalid_rules(gateway: Gateway, rules: dict[str, Any], where: str) -> None:
    status, _, places = refused(gateway.admin.put(POLICY, rules))
    assert (status, places) == (422, [where])
    assert not Ledger.objects.exists()


@pytest.mark.parametrize("benefit", ["NaN", -1, 1e19, "Infinity"])
def test_an_invalid_benefit(gateway: Gateway, benefit: Any) -> None:
    gateway.set()
    assert gateway.post("decide", "1", group="physics", benefit=benefit).status_code in (400, 422)
    assert not Job.objects.exists()


def test_a_benefit_function_that_a_package_brought_is_named_and_nothing_is_booked(gateway: Gateway) -> None:
    """The ledger of an earlier version: its amounts are shown and stay until the rules name a known function."""
    gateway.set(entry="/", booked_at="submit", received={"physics": 30})
    gateway.step("decide", "a", group="physics", benefit=30)
    for benefit in ("energy", {"cpu_s": 1, "energy": 2}):
        Ledger.objects.update(benefit=benefit)
        found = gateway.caller.get(gateway.path).json()
        assert (found["rules"]["benefit"], found["ledger"]["unit"]) == (benefit, "")
        assert found["notes"][0].startswith("The benefit function energy isn't built in:")
        for step in STEPS:
            job = {"job": "b", "group": "physics", "benefit": 1} if step == "decide" else {"job": "a"}
            answer = gateway.caller.post(f"{gateway.path}/{step}", job)
            assert answer.status_code == 422, (step, answer.content)
            assert 'unknown benefit "energy"; allowed are cpu_s' in answer.json()["detail"]
        assert gateway.received() == {"biology": 0, "physics": 60}
    gateway.set(entry="/", booked_at="submit", benefit="cpu_s")
    assert gateway.step("finished", "a", benefit=20)["booked"] == 20
    assert gateway.received() == {"biology": 0, "physics": 50}


def test_rule_changes_are_audited(gateway: Gateway) -> None:
    gateway.set(benefit={"cpu_s": 2}, received={"physics": 5.0})
    event = AuditEvent.objects.get(verb="policy.sam_rules_set")
    assert (event.policy_slug, event.details["benefit"], event.details["received"]) == (
        "grid",
        {"cpu_s": 2},
        {"physics": 5.0},
    )
    assert gateway.set(booked_at="end")["rules"]["revision"] == 2
    assert gateway.received()["physics"] == 5.0, "what a group has received stays"


def test_decisions_need_the_right_scope(gateway: Gateway) -> None:
    site = gateway.site
    assert refused(gateway.post("decide", "1", group="physics"))[:2] == (404, "not_found")
    gateway.set()
    below = site.token("schedulers", policy_slug="grid", subtree_uid=site.uid("/biology"))
    for text in (below, site.token("schedulers", policy_slug="other"), site.token("usage:write")):
        caller = Caller(token=text)
        for step in STEPS:
            assert caller.post(f"{POLICY}/{step}", {"job": "1"}).status_code in (403, 404)
    assert Caller(user=site.pia).post(f"{POLICY}/decide", {"job": "1", "group": "physics"}).status_code == 403
    assert Caller(user=site.pia).put(POLICY, {}).status_code == 403
    assert Caller(user=site.pia).get(POLICY).status_code == 404, "she sees no usage of biology"
    assert Caller(token=site.token("priorities:read")).get(POLICY).status_code == 200
    for bound in ({"policy_slug": "grid", "subtree_uid": site.uid("/biology")}, {"policy_slug": "other"}):
        assert Caller(token=site.token("priorities:read", **bound)).get(POLICY).status_code == 404
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_decisions_see_each_others_bookings(gateway: Gateway) -> None:
    """Eight of a group that may have half: as one after the other, whatever the threads do."""
    gateway.set(booked_at="submit", received={"physics": 0.0, "biology": 10.0})
    answers: dict[str, Any] = {}

    def ask(job: str) -> None:
        try:
            answers[job] = Gateway.step(gateway, "decide", job, group="physics", benefit=4.0)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask, args=(f"{number % 8}",)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fractions = sorted(answer["fraction_after"] for answer in answers.values())
    assert fractions == pytest.approx([4 * n / (10 + 4 * n) for n in range(1, 9)])
    assert Received.objects.get(entry_uid=gateway.site.uid("/physics")).amount == 32.0


def test_the_command_prints_the_ledger_and_books_steps(gateway: Gateway) -> None:
    gateway.set(booked_at="submit")
    out = io.StringIO()
    call_command("sam", "grid", "decide", "1", "--group", "physics", "--benefit", "4", stdout=out)
    assert json.loads(out.getvalue()) == gateway.step("decide", "1", group="physics", benefit=4.0)
    out = io.StringIO()
    call_command("sam", "grid", stdout=out)
    found = json.loads(out.getvalue())
    assert (found["jobs"]["decided"], found["ledger"]["groups"]["physics"]["after"]) == (1, 4.0)
    with pytest.raises(CommandError):
        call_command("sam", "grid", "started", "2", stdout=out)


def test_a_jump_of_the_clock_closes_and_deletes_no_job(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.set(booked_at="submit", lost_after_h=24)
    gateway.step("decide", "1", group="physics", benefit=4.0)
    gateway.step("decide", "2", group="biology", benefit=2.0)
    gateway.step("finished", "2", benefit=2.0)
    note_clock(AT, database_at=AT)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=95)).isoformat())
    gateway.step("decide", "3", group="biology", benefit=1.0)
    assert gateway.received()["physics"] == 4.0
    assert set(Job.objects.values_list("job", "state")) == {("1", "decided"), ("2", "finished"), ("3", "decided")}


@pytest.mark.parametrize("is_started", [True, False])
def test_jobs_that_a_clock_that_was_ahead_closed_are_reopened_with_their_booking(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, is_started: bool
) -> None:
    gateway.set(booked_at="submit", lost_after_h=24)
    gateway.step("decide", "1", group="physics", benefit=4.0)
    if is_started:
        gateway.step("started", "1")
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=95)).isoformat())
    gateway.step("decide", "2", group="biology", benefit=1.0)
    assert Job.objects.get(job="1").state == "lost"
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=1)).isoformat())
    gateway.step("decide", "3", group="biology", benefit=1.0)
    assert Job.objects.get(job="1").state == ("started" if is_started else "decided")
    assert gateway.received()["physics"] == 4.0
