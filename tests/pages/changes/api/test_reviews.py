"""The life of a change set by REST: approved, sent back, later, rebased; its checks, its effect and its comments."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.policies.services import change_settings, change_shares
from apps.priorities import change_effect_runs
from apps.runs.services import work_run_now
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.changes.api.test_changesets import PATH, draft, shares
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


@pytest.fixture
def paul(site: Site) -> Caller:
    """A second manager of physics."""
    user = User.objects.create_user("paul")
    make_grant(user, site.uid("/physics"), policy=site.policy)
    return Caller(user=user)


def guard(**limits: float) -> None:
    change_settings(policy_slug="grid", settings={"review": limits}, reason="Four eyes.", at=AT, actor=SYSTEM)


def proposed(caller: Caller, *operations: dict[str, Any], base: int = 2) -> int:
    number: int = draft(caller, *(operations or (shares("/physics/bob", 18),)), base=base).json()["id"]
    assert caller.post(f"{PATH}/{number}/propose").status_code == 200
    return number


def test_a_large_change_is_published_after_a_second_person_approved_it(pia: Caller, paul: Caller) -> None:
    guard(points=5)
    number = proposed(pia, base=3)
    refused = pia.post(f"{PATH}/{number}/publish")
    assert (refused.status_code, refused.json()["code"]) == (409, "needs_approval")
    own = pia.post(f"{PATH}/{number}/approve")
    assert (own.status_code, own.json()["code"]) == (403, "own_change_set")
    approved = paul.post(f"{PATH}/{number}/approve").json()
    assert (approved["state"], [each["user"] for each in approved["approvals"]]) == ("approved", ["paul"])
    assert pia.post(f"{PATH}/{number}/publish").json()["state"] == "published"


def test_the_size_limit_applies_to_change_sets_by_rest(pia: Caller) -> None:
    guard(points=50)
    small, large = (draft(pia, shares("/physics/bob", value), base=3).json()["id"] for value in (1.1, 900))
    refusal = pia.post(f"{PATH}/{large}/publish")
    assert refused(refusal)[:2] == (409, "needs_approval")
    assert pia.post(f"{PATH}/{small}/publish").json()["revision"] == 4


def test_an_approval_applies_to_a_version_and_an_edit_revokes_it(pia: Caller, paul: Caller) -> None:
    number = proposed(pia)
    stale = paul.post(f"{PATH}/{number}/approve", If_Match='"1"')
    assert (stale.status_code, stale.json()["code"]) == (412, "stale")
    tag = paul.get(f"{PATH}/{number}").headers["ETag"]
    approved = paul.post(f"{PATH}/{number}/approve", If_Match=tag)
    assert approved.status_code == 200
    edited = pia.patch(f"{PATH}/{number}", {"reason": "else"}, If_Match=approved.headers["ETag"]).json()
    assert (edited["state"], edited["approvals"]) == ("draft", [])


def test_requesting_changes_needs_a_reason(pia: Caller, paul: Caller) -> None:
    number = proposed(pia)
    assert paul.post(f"{PATH}/{number}/request-changes").status_code == 422
    back = paul.post(f"{PATH}/{number}/request-changes", {"reason": "Too much."})
    assert back.json()["state"] == "draft"
    assert [each["text"] for each in pia.get(f"{PATH}/{number}/comments").json()["results"]] == ["Too much."]


def test_a_scheduled_publication_can_be_published_now(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    later = pia.post(f"{PATH}/{number}/publish", {"effective_at": "2026-12-01T08:00:00+01:00"}).json()
    assert (later["state"], later["effective_at"], later["decided_by"]) == ("approved", "2026-12-01T07:00:00Z", "pia")
    assert pia.get("policies/grid").json()["head_revision"] == 2
    still = pia.post(f"{PATH}/{number}/publish").json()
    assert (still["state"], still["effective_at"]) == ("approved", "2026-12-01T07:00:00Z")
    now = pia.post(f"{PATH}/{number}/publish", {"effective_at": None}).json()
    assert (now["state"], now["revision"], now["effective_at"]) == ("published", 3, None)


def test_the_effective_time_of_a_draft_is_respected(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    when = {"effective_at": "2026-12-01T07:00:00Z"}
    assert pia.patch(f"{PATH}/{number}", when, If_Match='"1"').json()["state"] == "draft"
    assert pia.post(f"{PATH}/{number}/publish").json()["state"] == "approved"


def test_conflicts_are_resolved_and_the_rebased_change_set_is_published(site: Site, pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18), shares("/physics/alice", 4)).json()["id"]
    change_shares(
        policy_slug="grid", entry_uid=site.uid("/physics/bob"), shares=5, reason="Meanwhile.", at=AT, actor=SYSTEM
    )
    refused = pia.post(f"{PATH}/{number}/rebase")
    assert refused.status_code == 409
    (conflict,) = refused.json()["conflicts"]
    assert set(conflict) == {"entry", "path", "field", "base", "mine", "theirs"}
    choice = {"entry": conflict["entry"], "field": "shares", "take": "theirs"}
    assert pia.post(f"{PATH}/{number}/rebase", {"choices": [{**choice, "take": "both"}]}).status_code == 400
    rebased = pia.post(f"{PATH}/{number}/rebase", {"choices": [choice]}).json()
    assert (rebased["base_revision"], [each["shares"] for each in rebased["operations"]]) == (3, [4])
    assert pia.post(f"{PATH}/{number}/publish").json()["revision"] == 4


def test_settings_conflicts_have_no_entry(site: Site, admin: Caller) -> None:
    number = draft(admin, {"op": "set_policy", "settings": {"fallback_factor": 0.1}}).json()["id"]
    change_settings(policy_slug="grid", settings={"fallback_factor": 0.9}, reason="Meanwhile.", at=AT, actor=SYSTEM)
    (conflict,) = admin.post(f"{PATH}/{number}/rebase").json()["conflicts"]
    assert (conflict["entry"], conflict["field"]) == (None, "settings.fallback_factor")
    choice = {"entry": None, "field": conflict["field"], "take": "mine"}
    assert admin.post(f"{PATH}/{number}/rebase", {"choices": [choice]}).status_code == 200


def test_checks_name_blockers_and_remedies(pia: Caller) -> None:
    guard(points=5)
    number = draft(pia, shares("/physics/bob", 18), base=3).json()["id"]
    checks = {check["code"]: check for check in pia.get(f"{PATH}/{number}/checks").json()["results"]}
    assert {code for code, check in checks.items() if check["state"] == "block"} == {"size"}
    assert "more than 5 points" in checks["size"]["text"]
    assert "admin" in checks["size"]["remedy"]
    assert checks["delegation"]["state"] == "ok"


def test_the_effect_has_current_and_future_ranks(computed: Site) -> None:
    pia = Caller(user=computed.pia)
    number = draft(pia, shares("/physics/alice", 1000)).json()["id"]
    effect = pia.get(f"{PATH}/{number}/effect").json()
    assert (effect["state"], effect["horizons_days"]) == ("ready", [0, 1, 7, 30])
    assert effect["n_moving"] == len(effect["leaves"]) > 0
    assert all(len(leaf["ranks_with"]) == len(leaf["ranks_without"]) == 4 for leaf in effect["leaves"])
    assert {leaf["path"] for leaf in effect["leaves"]} <= {"/physics/bob", "/physics/alice"}
    pia.post(f"{PATH}/{number}/publish")
    assert pia.get(f"{PATH}/{number}/effect").json()["state"] == "decided"


def test_the_effect_in_a_large_policy_is_computed_on_request(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 2)
    pia = Caller(user=computed.pia)
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    assert pia.get(f"{PATH}/{number}/effect").json()["state"] == "absent"
    asked = pia.post(f"{PATH}/{number}/effect")
    assert asked.status_code == 202
    assert work_run_now(asked.json()["run"]).state == "succeeded"
    assert pia.get(f"runs/{asked.json()['run']}").json()["state"] == "succeeded"
    assert pia.get(f"{PATH}/{number}/effect").json()["state"] == "ready"


def test_comments_are_plain_text_on_the_change_set_or_one_edit(pia: Caller, paul: Caller) -> None:
    number = proposed(pia)
    answer = paul.post(f"{PATH}/{number}/comments", {"text": "<b>Why</b>?", "operation": 0})
    assert (answer.status_code, answer.json()["operation"], answer.json()["text"]) == (201, 0, "<b>Why</b>?")
    wrong = paul.post(f"{PATH}/{number}/comments", {"text": "x", "operation": 7})
    assert (wrong.status_code, wrong.json()["fields"][0]["where"]) == (422, "operation")
    assert pia.post(f"{PATH}/{number}/comments", {}).status_code == 400
    assert [each["author"] for each in pia.get(f"{PATH}/{number}/comments").json()["results"]] == ["paul"]


def test_a_missing_right_to_publish_is_named(site: Site) -> None:
    make_grant(
        site.nobody,
        site.uid("/"),
        policy=site.policy,
        verbs=["view_members", "edit_shares", "edit_structure"],
        at=site.at,
        reason="pipeline",
    )
    pipeline = Caller(user=site.nobody)
    for operation in (
        {"op": "set_shares", "entry": "/physics", "shares": 5},
        {"op": "set_policy", "settings": {"fallback_factor": 0.25}},
    ):
        made = draft(pipeline, operation).json()
        refusal = pipeline.post(f"{PATH}/{made['id']}/publish", {})
        assert refused(refusal)[:2] == (403, "not_allowed")
        assert "lack the right publish" in refusal.json()["detail"]
        assert "may not change" not in refusal.json()["detail"]
        assert pipeline.post(f"{PATH}/{made['id']}/propose", {}).json()["state"] == "proposed"
    ben = Caller(user=site.ben)
    stranger = draft(ben, shares("/biology", 5)).json()
    refusal = ben.post(f"{PATH}/{stranger['id']}/publish", {})
    assert "may not change /biology" in refusal.json()["detail"], "nor edit it: this isn't about publishing"


def test_proposing_reports_conflicts(site: Site, pia: Caller, admin: Caller) -> None:
    mine, theirs = (draft(caller, shares("/physics/bob", n)).json() for caller, n in ((pia, 18), (admin, 7)))
    assert mine["conflicts"] == []
    published = admin.post(f"{PATH}/{theirs['id']}/publish", {})
    assert published.json()["conflicts"] == []
    proposed = pia.post(f"{PATH}/{mine['id']}/propose", {})
    assert proposed.json()["state"] == "proposed"
    refusal = pia.post(f"{PATH}/{mine['id']}/publish", {})
    assert refused(refusal)[:2] == (409, "edit_conflict")
    assert proposed.json()["conflicts"] == refusal.json()["conflicts"]
    (conflict,) = pia.get(f"{PATH}/{mine['id']}").json()["conflicts"]
    assert (conflict["path"], conflict["field"], conflict["base"], conflict["mine"], conflict["theirs"]) == (
        "/physics/bob",
        "shares",
        1,
        18,
        7,
    )
