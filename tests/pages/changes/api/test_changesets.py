"""Change sets by REST: drafts with their effect, versions, conflicts, publishing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

PATH = "policies/grid/changesets"


def draft(caller: Caller, *operations: dict[str, Any], base: int = 2, **more: Any) -> Any:
    return caller.post(PATH, {"base_revision": base, "reason": "try", "operations": list(operations), **more})


def shares(entry: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": entry, "shares": value}


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


def test_a_draft_response_has_three_layers_and_changes_nothing(computed: Site) -> None:
    pia = Caller(user=computed.pia)
    answer = draft(pia, shares("/physics/bob", 18))
    assert answer.status_code == 201, answer.content
    assert answer.headers["ETag"] == '"1"'
    data = answer.json()
    assert (data["state"], data["base_revision"], data["revision"]) == ("draft", 2, None)
    effect = data["effect"]
    assert [step["path"] for step in effect["stated"]] == ["/physics/bob"]
    targets = {step["path"]: (step["target_before"], step["target_after"]) for step in effect["effective"]}
    assert targets["/physics/bob"] == pytest.approx((1 / 3, 0.9))
    assert targets["/physics/alice"] == pytest.approx((2 / 3, 0.1))
    assert effect["simulated"] == [], "alice was the last already"
    turned = draft(pia, shares("/physics/alice", 180)).json()["effect"]["simulated"]
    moved = {step["path"]: (step["rank_before"], step["rank_after"]) for step in turned}
    assert moved == {"/physics/alice": (3, 2), "/physics/bob": (2, 3)}
    assert Caller(user=computed.admin).get("policies/grid").json()["head_revision"] == 2


def test_the_simulated_layer_equals_the_next_recompute(computed: Site, admin: Caller) -> None:
    answer = draft(
        admin, shares("/physics", 900), {"op": "add", "parent": "/biology", "name": "dan", "kind": "user", "shares": 1}
    )
    simulated = {step["path"]: step["rank_after"] for step in answer.json()["effect"]["simulated"]}
    assert simulated == {"/physics/bob": 1, "/physics/alice": 2, "/biology/carol": 4}
    admin.post(f"{PATH}/{answer.json()['id']}/publish")
    computed.recompute()
    after = admin.get("policies/grid/tree", {"depth": 9}).json()
    ranks = {leaf["path"]: leaf["rank"] for group in after["children"] for leaf in group["children"]}
    assert ranks == {**simulated, "/biology/dan": 3}


def test_publishing_creates_a_revision_shown_in_the_tree(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    answer = pia.post(f"{PATH}/{number}/publish", {"reason": "Bob leads now."})
    assert answer.status_code == 200, answer.content
    assert (answer.json()["state"], answer.json()["revision"]) == ("published", 3)
    found = pia.get("policies/grid/tree", {"path": "/physics/bob", "depth": 0}).json()
    assert (found["shares"], found["revision"]) == (18, 3)
    assert found["target"] == pytest.approx(0.9)
    newest = pia.get("policies/grid/revisions").json()["results"][0]
    assert (newest["number"], newest["author"], newest["reason"]) == (3, "pia", "Bob leads now.")
    again = pia.post(f"{PATH}/{number}/publish")
    assert (again.status_code, again.json()["code"]) == (409, "already_published")


def test_an_edit_needs_the_current_version(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    without = pia.patch(f"{PATH}/{number}", {"reason": "better"})
    assert (without.status_code, without.json()["code"]) == (428, "precondition_required")
    stale = pia.patch(f"{PATH}/{number}", {"reason": "better"}, If_Match='"7"')
    assert (stale.status_code, stale.json()["code"]) == (412, "stale")
    good = pia.patch(f"{PATH}/{number}", {"reason": "better"}, If_Match='"1"')
    assert (good.status_code, good.json()["reason"], good.headers["ETag"]) == (200, "better", '"2"')
    assert pia.post(f"{PATH}/{number}/publish", If_Match='"1"').status_code == 412
    assert pia.get(f"{PATH}/{number}").json()["version"] == 2


def test_a_conflict_carries_base_mine_and_theirs(pia: Caller, admin: Caller) -> None:
    mine = draft(pia, shares("/physics/bob", 18)).json()["id"]
    theirs = draft(admin, shares("/physics/bob", 5)).json()["id"]
    assert admin.post(f"{PATH}/{theirs}/publish").status_code == 200
    answer = pia.post(f"{PATH}/{mine}/publish")
    assert answer.status_code == 409
    (conflict,) = answer.json()["conflicts"]
    assert set(conflict) >= {"entry", "field", "base", "mine", "theirs"}
    assert (conflict["field"], conflict["base"], conflict["mine"], conflict["theirs"]) == ("shares", 1, 18, 5)


def test_changes_of_different_fields_merge(pia: Caller, admin: Caller) -> None:
    mine = draft(pia, shares("/physics/bob", 18)).json()["id"]
    theirs = draft(admin, shares("/biology", 5)).json()["id"]
    assert admin.post(f"{PATH}/{theirs}/publish").status_code == 200
    assert pia.post(f"{PATH}/{mine}/publish").json()["revision"] == 4


def test_proposing_and_withdrawing_move_the_state(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    assert pia.post(f"{PATH}/{number}/propose").json()["state"] == "proposed"
    assert pia.post(f"{PATH}/{number}/withdraw").json()["state"] == "withdrawn"
    assert pia.post(f"{PATH}/{number}/publish").json()["code"] == "withdrawn"
    states = [found["state"] for found in pia.get(PATH).json()["results"] if found["id"] == number]
    assert states == ["withdrawn"]
    assert pia.get(PATH, {"state": "proposed"}).json()["results"] == []


@pytest.mark.parametrize(
    ("operation", "where", "code"),
    [
        (shares("/physics/bob", -1), "operations[0].shares", "invalid"),
        (shares("/physics/bob", 1e300), "operations[0].shares", "invalid"),
        (shares("/physics/bob", "20"), "operations[0].shares", "invalid"),
        ({"op": "explode"}, "operations[0].op", "invalid"),
        ({"op": "add", "parent": "/physics", "name": "bob"}, "operations[0].name", "name_taken"),
        ({"op": "add", "parent": "/physics", "name": "a/b"}, "operations[0].name", "invalid"),
        ({**shares("/physics/bob", 1), "share": 2}, "operations[0].share", "invalid"),
    ],
)
def test_invalid_operations_are_refused_with_location_and_nothing_is_stored(
    pia: Caller, operation: dict[str, Any], where: str, code: str
) -> None:
    assert refused(draft(pia, operation)) == (422, code, [where])
    assert pia.get(PATH).json()["results"] == []


def test_an_operation_on_an_unknown_entry_is_not_found(pia: Caller) -> None:
    assert refused(draft(pia, shares("/physics/nobody", 1))) == (404, "not_found", [])
    assert pia.get(PATH).json()["results"] == []


def test_a_manager_changes_only_the_own_subtree(pia: Caller) -> None:
    own_share = draft(pia, shares("/physics", 99)).json()["id"]
    answer = pia.post(f"{PATH}/{own_share}/publish")
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    hidden = draft(pia, shares("/biology/carol", 5))
    assert hidden.status_code == 404
    missing = draft(pia, shares("/nowhere/carol", 5))
    assert {**hidden.json(), "request_id": ""} == {**missing.json(), "request_id": ""}


def test_a_change_set_of_another_policy_is_not_found(admin: Caller) -> None:
    number = draft(admin, shares("/physics/bob", 18)).json()["id"]
    assert refused(admin.get(f"policies/other/changesets/{number}")) == (404, "not_found", [])
    assert refused(admin.post(f"policies/other/changesets/{number}/publish")) == (404, "not_found", [])
    assert admin.get(f"{PATH}/{number}").json()["state"] == "draft"


def test_every_published_change_set_can_be_read(admin: Caller) -> None:
    found = admin.get(PATH, {"state": "published"}).json()["results"]
    assert len(found) == 2
    for change_set in found:
        assert admin.get(f"{PATH}/{change_set['id']}").status_code == 200


def test_a_publication_is_undone_by_a_new_draft(pia: Caller) -> None:
    number = draft(pia, shares("/physics/bob", 18)).json()["id"]
    refused = pia.post(f"{PATH}/{number}/revert")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_published")
    pia.post(f"{PATH}/{number}/publish")
    answer = pia.post(f"{PATH}/{number}/revert", {"reason": "It was too much."})
    assert answer.status_code == 201, answer.content
    undoing = answer.json()
    assert (undoing["state"], undoing["base_revision"], undoing["reason"]) == ("draft", 3, "It was too much.")
    assert [each["shares"] for each in undoing["operations"]] == [1]
    assert pia.post(f"{PATH}/{undoing['id']}/publish").status_code == 200
    assert pia.get("policies/grid/tree", {"path": "/physics/bob", "depth": 0}).json()["shares"] == 1


def test_undoing_a_later_changed_field_conflicts(pia: Caller) -> None:
    for value in (18, 20):
        number = draft(pia, shares("/physics/bob", value), base=2 if value == 18 else 3).json()["id"]
        assert pia.post(f"{PATH}/{number}/publish").status_code == 200
    undoing = pia.post(f"{PATH}/{number - 1}/revert").json()
    answer = pia.post(f"{PATH}/{undoing['id']}/publish")
    assert answer.status_code == 409
    (found,) = answer.json()["conflicts"]
    assert (found["field"], found["base"], found["mine"], found["theirs"]) == ("shares", 18, 1, 20)
