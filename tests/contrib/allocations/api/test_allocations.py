"""Allocations and capacities by REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.policies.models import Allocation, ChangeSet
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

YEAR = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
PHYSICS = {**YEAR, "entry": "/physics", "amount": 5256, "reason": "The committee."}


def delete(caller: Caller, path: str, **headers: str) -> Any:
    client: Client = caller.client
    return client.delete(f"/api/v1/{path}", headers={**caller.headers, **headers})


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


def test_an_allocation_is_created_read_changed_and_withdrawn(site: Site, admin: Caller) -> None:
    made = admin.post("policies/grid/allocations", PHYSICS)
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["path"], body["amount"], body["author"]) == ("/physics", 5256, "admin")
    where = f"policies/grid/allocations/{body['uid']}"
    assert made["ETag"] == body["etag"] == admin.get(where)["ETag"]
    changed = admin.patch(where, {"amount": 4000, "reason": "Cut."}, If_Match=body["etag"])
    assert (changed.status_code, changed.json()["amount"]) == (200, 4000)
    assert admin.patch(where, {"amount": 1, "reason": "x"}).status_code == 428
    assert admin.patch(where, {"amount": 1, "reason": "x"}, If_Match=body["etag"]).status_code == 412
    unexplained = admin.patch(where, {"amount": 1, "reason": ""}, If_Match=changed["ETag"])
    assert refused(unexplained) == (400, "invalid", ["reason"])
    assert admin.get(where).json() == changed.json()
    assert delete(admin, f"{where}?reason=Over").status_code == 428
    assert delete(admin, f"{where}?reason=Over", **{"If-Match": body["etag"]}).status_code == 412
    assert delete(admin, f"{where}?reason=Over", **{"If-Match": changed["ETag"]}).status_code == 204
    assert admin.get(where).status_code == 404
    assert Allocation.objects.get().withdrawn_at is not None


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"entry": "/nowhere"}, 404),
        ({"entry": "/"}, 422),
        ({"amount": -1}, 400),
        ({"amount": "many"}, 400),
        ({"ends_on": "2025-01-01"}, 422),
        ({"ends_on": "soon"}, 400),
        ({"starts_on": "0001-01-01"}, 422),
        ({"colour": "green"}, 400),
    ],
)
def test_an_invalid_allocation_names_its_field(admin: Caller, more: dict[str, Any], status: int) -> None:
    answer = admin.post("policies/grid/allocations", {**PHYSICS, **more})
    assert answer.status_code == status, answer.content
    if status != 404:
        assert [problem["where"] for problem in answer.json()["fields"]] == list(more)
    assert not Allocation.objects.exists()


def test_allocations_are_filtered_by_entry_and_days(admin: Caller, pia: Caller) -> None:
    admin.post("policies/grid/allocations", PHYSICS)
    pia.post("policies/grid/allocations", {**PHYSICS, "entry": "/physics/bob", "ends_on": "2026-03-31"})
    admin.post("policies/grid/allocations", {**PHYSICS, "entry": "/biology"})

    def paths(caller: Caller, **asked: str) -> list[str]:
        return [each["path"] for each in caller.get("policies/grid/allocations", asked).json()["results"]]

    assert paths(admin) == ["/biology", "/physics", "/physics/bob"]
    assert paths(pia) == ["/physics", "/physics/bob"]
    assert paths(admin, entry="/physics") == ["/physics"]
    assert paths(admin, entry="/physics", below="true") == ["/physics", "/physics/bob"]
    assert paths(admin, **{"from": "2026-06-01", "to": "2026-06-30"}) == ["/biology", "/physics"]
    wrong = admin.get("policies/grid/allocations", {"from": "2026-06-01", "to": "2026-05-01"})
    assert refused(wrong) == (422, "invalid", ["to"])


def test_table_and_page_agree(computed: Site, admin: Caller, pia: Caller) -> None:
    stated = admin.post("policies/grid/capacities", {"starts_on": "2026-01-01", "per_hour": 1, "reason": "One box."})
    assert stated.status_code == 201, stated.content
    admin.post("policies/grid/allocations", PHYSICS)
    pia.post("policies/grid/allocations", {**PHYSICS, "entry": "/physics/bob", "amount": 6000})
    asked = {"from": "2026-01-01", "to": "2026-12-31"}
    table = admin.get("policies/grid/allocations/table", asked).json()
    assert table["capacity"] == 8760
    assert (table["group"]["sub_allocated"], table["group"]["unallocated"]) == (5256, 3504)
    by_path = {row["path"]: row for row in table["results"]}
    physics = by_path["/physics"]
    assert (physics["share_of_parent"], physics["over_committed"], physics["unallocated"]) == (0.6, 744, 0)
    assert physics["delivered"] == pytest.approx(7)  # alice 6 hours, bob 1
    assert by_path["/biology"]["delivered"] == pytest.approx(3)
    assert (by_path["/biology"]["allocated"], by_path["/biology"]["starts_on"]) == (None, None)
    narrow = pia.get("policies/grid/allocations/table", {**asked, "of": "/physics"}).json()
    assert [row["path"] for row in narrow["results"]] == ["/physics/alice", "/physics/bob"]


def test_allocations_become_a_draft_after_a_preview(site: Site, admin: Caller) -> None:
    admin.post("policies/grid/capacities", {"starts_on": "2026-01-01", "per_hour": 1, "reason": "One box."})
    admin.post("policies/grid/allocations", {**PHYSICS, "amount": 2190})
    asked = {"from": "2026-01-01", "to": "2026-12-31", "rest": "spread"}
    shown = admin.get("policies/grid/allocations/shares", asked).json()
    assert [(line["name"], line["basis"], line["shares_after"]) for line in shown["lines"]] == [
        ("biology", "rest", 75),
        ("physics", "allocated", 25),
    ]
    assert not ChangeSet.objects.filter(state="draft").exists()
    made = admin.post("policies/grid/allocations/shares", {**YEAR, "at_end": "keep", "reason": "As agreed."})
    assert made.status_code == 201, made.content
    assert [operation["op"] for operation in made.json()["operations"]] == ["set_shares", "set_shares", "set_dates"]
    assert ChangeSet.objects.get(pk=made.json()["change_set"]).state == "draft"


def test_capacities_are_recorded_changed_and_removed(site: Site, admin: Caller, pia: Caller) -> None:
    new = {"site": "s1", "starts_on": "2026-01-01", "per_hour": 64, "reason": "New."}
    assert pia.post("policies/grid/capacities", new).status_code == 403
    made = admin.post("policies/grid/capacities", new)
    where = f"policies/grid/capacities/{made.json()['id']}"
    assert admin.post("policies/grid/capacities", new).status_code == 409
    assert admin.patch(where, {"per_hour": 32, "reason": "Less."}).status_code == 428
    changed = admin.patch(where, {"ends_on": "2026-06-30", "reason": "Off."}, If_Match=made["ETag"])
    assert (changed.json()["ends_on"], changed.json()["per_hour"]) == ("2026-06-30", 64)
    assert pia.get(where).json()["per_hour"] == 64
    assert delete(admin, f"{where}?reason=no", **{"If-Match": made["ETag"]}).status_code == 412
    assert delete(admin, f"{where}?reason=no", **{"If-Match": changed["ETag"]}).status_code == 204
    assert admin.get("policies/grid/capacities").json()["results"] == []


def test_a_token_of_another_subtree_cannot_allocate(site: Site) -> None:
    aside = Caller(
        token=site.token("policies:read", "policies:write", policy_slug="grid", subtree_uid=site.uid("/biology"))
    )
    assert refused(aside.post("policies/grid/allocations", PHYSICS)) == (404, "not_found", [])
    whole = aside.post("policies/grid/allocations", {**PHYSICS, "entry": "/biology"})
    assert refused(whole) == (403, "not_allowed", [])
    assert aside.post("policies/grid/allocations", {**PHYSICS, "entry": "/biology/carol"}).status_code == 201
    reader = Caller(token=site.token("policies:read", policy_slug="grid"))
    assert [each["path"] for each in reader.get("policies/grid/allocations").json()["results"]] == ["/biology/carol"]
    assert refused(reader.post("policies/grid/allocations", PHYSICS)) == (403, "insufficient_scope", [])
    assert Allocation.objects.get().entry_uid == site.uid("/biology/carol")
