"""Notices, their rules and statements by REST."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Mark, Notice, Rule
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from tests.contrib.notices.notices_site import give_core_hours
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site

DAY = timedelta(days=1)


@pytest.fixture
def notified(computed: Site) -> Site:
    Source.objects.update(expected_every_s=3600, last_received_at=AT - timedelta(hours=9))
    give_core_hours(computed, ends_on=(AT + 20 * DAY).date())
    evaluate(at=AT)
    return computed


def test_notices_are_paged_newest_first_with_key_values_and_text(notified: Site, admin: Caller) -> None:
    first = admin.get("notices", {"limit": 1}).json()
    second = admin.get("notices", {"limit": 1, "cursor": first["next"]}).json()
    rows = [*first["results"], *second["results"]]
    assert {row["kind"] for row in rows} == {"late_source", "ending_allocations"}
    assert second["next"] is None
    late = next(row for row in rows if row["kind"] == "late_source")
    assert (late["source"], late["policy"], late["is_unread"], late["level"]) == ("cluster-a", None, True, "warn")
    assert late["sentence"]["key"] == "late_source.late"
    assert late["sentence"]["values"]["hours"] == 9
    assert admin.get("notices", {"state": "all"}).status_code == 400
    assert admin.get("notices", {"kind": "nothing"}).status_code == 404


def test_read_marks_are_private(notified: Site, admin: Caller) -> None:
    id = Notice.objects.get(kind="late_source").pk
    assert admin.patch(f"notices/{id}", {"is_unread": False}).json()["is_unread"] is False
    until = (AT + DAY).isoformat()
    assert admin.patch(f"notices/{id}", {"snoozed_until": until}).json()["snoozed_until"]
    assert admin.patch(f"notices/{id}", {"snoozed_until": (AT - DAY).isoformat()}).status_code == 422
    assert Mark.objects.get().user == notified.admin
    assert Caller(user=notified.ben).get(f"notices/{id}").status_code == 404
    assert (
        Caller(token=notified.token("policies:write")).patch(f"notices/{id}", {"is_unread": False}).status_code == 403
    )


def test_a_limited_token_sees_notices_of_its_subtree(notified: Site) -> None:
    part = Caller(token=notified.token("policies:read", subtree_uid=notified.uid("/physics"), policy_slug="grid"))
    assert {row["kind"] for row in part.get("notices").json()["results"]} <= {"ending_allocations"}
    aside = Caller(token=notified.token("policies:read", subtree_uid=notified.uid("/biology"), policy_slug="grid"))
    assert aside.get("notices").json()["results"] == []


def test_rules_are_created_changed_with_their_etag_and_removed(notified: Site, admin: Caller) -> None:
    given = {"kind": "waiting_decisions", "policy": "grid", "is_on": True, "terms": {"days": 4}}
    made = admin.post("notices/rules", given)
    assert made.status_code == 201
    rule = made.json()
    assert (rule["policy"], rule["terms"], rule["etag"]) == ("grid", {"days": 4.0}, '"1"')
    assert admin.post("notices/rules", given).status_code == 412
    path = f"notices/rules/{rule['id']}"
    assert admin.patch(path, {"is_on": False}).status_code == 428
    assert admin.patch(path, {"is_on": False}, if_match='"9"').status_code == 412
    changed = admin.patch(path, {"is_on": False}, if_match='"1"').json()
    assert (changed["is_on"], changed["terms"], changed["etag"]) == (False, {"days": 4.0}, '"2"')
    wrong = admin.patch(path, {"terms": {"days": 0}}, if_match='"2"')
    assert wrong.status_code == 422
    assert wrong.json()["fields"][0]["where"] == "terms.days"
    assert Caller(user=notified.pia).patch(path, {"is_on": True}, if_match='"2"').status_code == 403
    assert admin.client.delete(f"/api/v1/{path}", headers={"If-Match": '"2"'}).status_code == 204
    assert not Rule.objects.filter(policy=notified.policy).exists()
    assert {row["kind"] for row in admin.get("notices/kinds").json()["results"]} >= {"over_budget", "late_source"}


@pytest.mark.parametrize("removed", [{"entry": "/physics"}, {"source": "cluster-a"}])
def test_rules_of_entries_and_sources_were_removed_and_are_refused_by_name(
    notified: Site, admin: Caller, removed: dict[str, str]
) -> None:
    given = {"kind": "waiting_decisions", "policy": "grid", "is_on": True}
    answer = admin.post("notices/rules", {**given, **removed})
    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["fields"][0]["where"]) == ("unknown_field", *removed)


def statement(caller: Caller, **query: Any) -> Any:
    return caller.get("policies/grid/statements", query)


def test_statements_of_a_month_and_of_twelve(notified: Site, admin: Caller) -> None:
    assert work_run_now(enqueue_series_build(notified.policy, at=AT).pk).state == "succeeded"
    rows = statement(admin, entry="/physics", month="2026-11").json()["results"]
    assert [row["path"] for row in rows] == ["/physics", "/physics/alice", "/physics/bob"]
    assert [row["month"] for row in statement(admin, entry="/physics").json()["results"]][:2] == ["2026-11", "2026-10"]
    for row in rows:
        figures = row["figures"]
        if figures is not None:
            total = figures["used"] + figures["lent"] + figures["missed"] + figures["unclear"] - figures["borrowed"]
            assert figures["entitled"] == pytest.approx(total)
    assert statement(admin, entry="/physics", month="2027-01").status_code == 422
    assert statement(admin).status_code == 400
    assert statement(Caller(user=notified.ben), entry="/physics", month="2026-11").status_code == 404
