"""The log by REST: who reads what of it, narrowed and paged; and whether the chain holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import check_chain
from apps.accounts.models import AuditEvent
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

EVERYTHING = ["both", "outside", "inside", "The first tree.", "A new policy.", "A new policy."]  # of both policies


@pytest.fixture
def log(site: Site) -> Site:
    """Three revisions: one within physics, one within biology, one of both."""
    actor = Actor(user=site.admin, via="api", request_id="req-1", address="192.0.2.9")
    for reason, *paths in (("inside", "/physics/bob"), ("outside", "/biology/carol"), ("both", "/physics", "/biology")):
        operations = [{"op": "set_shares", "entry": path, "shares": 7 + len(reason)} for path in paths]
        draft = make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=operations, reason=reason), at=AT, actor=actor
        )
        publish_change_set(id=draft.pk, version=1, at=AT, actor=actor)
    return site


def reasons(caller: Caller, **query: Any) -> list[str]:
    answer = caller.get("audit", {"verb": "policy.published", **query})
    assert answer.status_code == 200, answer.content
    return [row["reason"] for row in answer.json()["results"]]


def test_administrators_read_all_rows_with_addresses_and_chain_state(log: Site, admin: Caller) -> None:
    found = admin.get("audit", {"verb": "policy.published"}).json()
    assert [row["reason"] for row in found["results"]] == EVERYTHING
    assert found["next"] is found["chain"] is None
    row = found["results"][2]
    event = AuditEvent.objects.get(pk=row["id"])
    assert row == {
        "id": event.pk,
        "at": "2026-11-20T12:00:00Z",
        "actor": "admin",
        "verb": "policy.published",
        "outcome": "done",
        "policy": "grid",
        "entry": str(log.uid("/physics/bob")),
        "subject": "grid revision 3",
        "reason": "inside",
        "details": event.details,
        "via": "api",
        "request_id": "req-1",
        "token": "",
        "address": "192.0.2.9",
        "hash": bytes(event.hash).hex(),
    }
    check_chain(at=AT)
    chain = admin.get("audit").json()["chain"]
    n_rows = AuditEvent.objects.count()
    wanted = {"checked_at": "2026-11-20T12:00:00Z", "n_rows": n_rows, "broken_row": None}
    assert chain == {**wanted, "rows": n_rows}, "with the old name of n_rows"


def test_a_manager_reads_the_own_subtree_without_addresses_and_requests(log: Site) -> None:
    (row,) = Caller(user=log.pia).get("audit", {"verb": "policy.published"}).json()["results"]
    assert row["reason"] == "inside"
    assert (row["request_id"], row["token"], row["address"]) == (None, None, None)
    assert reasons(Caller(user=log.ben)) == ["outside"]
    assert reasons(Caller(user=log.nobody)) == []


def test_a_token_reads_within_its_scopes_and_limits(log: Site) -> None:
    assert reasons(Caller(token=log.token("admin"))) == EVERYTHING
    assert reasons(Caller(token=log.token("policies:read"))) == EVERYTHING
    bounded = Caller(token=log.token("policies:read", policy_slug="grid", subtree_uid=log.uid("/physics")))
    assert reasons(bounded) == ["inside"]
    assert reasons(Caller(token=log.token("policies:read", policy_slug="other"))) == ["A new policy."]
    assert reasons(Caller(token=log.token("policies:read", user=log.pia))) == ["inside"]
    assert reasons(Caller(token=log.token("self:read", user=log.pia))) == []
    assert reasons(Caller(token=log.token("self:read"))) == ["both", "outside", "inside"]
    for scope in ("priorities:read", "usage:write"):
        assert Caller(token=log.token(scope)).get("audit").status_code == 403
    assert Caller().get("audit").status_code == 401


def test_the_log_is_filtered_by_every_field(log: Site, admin: Caller) -> None:
    audit.record(
        actor=Actor(user=log.ben, via="page"),
        verb="grant.given",
        at=AT + timedelta(hours=1),
        outcome="refused",
        policy_slug="grid",
        entry_uid=log.uid("/biology"),
        subject="zoe",
        reason="No.",
    )
    for query, expected in (
        ({"actor": "BEN"}, ["No."]),
        ({"verb": "grant"}, ["No."]),
        ({"verb": "gran"}, []),
        ({"outcome": "refused"}, ["No."]),
        ({"via": "page"}, ["No."]),
        ({"q": "zoe"}, ["No."]),
        ({"since": "2026-11-20T12:30:00Z"}, ["No."]),
        ({"since": "2026-11-20T13:00:00Z", "until": "2026-11-20T13:00:00Z"}, []),
        ({"policy": "other"}, ["A new policy."]),
        ({"entry": "/biology/carol", "verb": "policy"}, ["outside"]),
        ({"entry": str(log.uid("/biology")), "verb": "policy"}, ["both", "outside"]),
        ({"entry": "/biology", "policy": "grid", "verb": "grant"}, ["No."]),
        ({"entry": "/biology", "policy": "other"}, []),
        ({"entry": "/nowhere"}, []),
    ):
        answer = admin.get("audit", query).json()["results"]
        assert [row["reason"] for row in answer] == expected, query
    assert reasons(Caller(user=log.pia), entry="/biology") == []


def test_paging_has_no_gaps_while_rows_are_added(site: Site, admin: Caller) -> None:
    made = [audit.record(actor=SYSTEM, verb="token.made", at=AT, subject=str(n)).pk for n in range(250)]
    seen: list[int] = []
    query: dict[str, str] = {"verb": "token"}
    while True:
        found = admin.get("audit", query).json()
        seen += [row["id"] for row in found["results"]]
        if found["next"] is None:
            break
        query["cursor"] = found["next"]
        audit.record(actor=SYSTEM, verb="token.made", at=AT)
    assert seen == made[::-1]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"since": "2026-11-20T12:00:00"}, "since"),
        ({"outcome": "maybe"}, "outcome"),
        ({"via": "fax"}, "via"),
        ({"cursor": "x"}, "cursor"),
        ({"person": "eva"}, "person"),
        ({"q": "a\0b"}, "q"),
        ({"entry": ""}, "entry"),
    ],
)
def test_unknown_filters_are_named(site: Site, admin: Caller, query: dict[str, str], where: str) -> None:
    answer = admin.get("audit", query)
    assert answer.status_code == 400
    assert where in [problem["where"] for problem in answer.json()["fields"]]


def test_a_row_with_a_thousand_entries_needs_few_queries(site: Site, django_assert_max_num_queries: Any) -> None:
    admin = Actor(user=site.admin, via="api")
    people = [{"op": "add", "parent": "/physics", "name": f"p{n}", "kind": "user"} for n in range(300)]
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=people, reason="all of them"), at=AT, actor=admin
    )
    publish_change_set(id=draft.pk, version=1, at=AT, actor=admin)
    caller = Caller(user=site.pia)
    with django_assert_max_num_queries(25):
        assert reasons(caller) == ["all of them"]
