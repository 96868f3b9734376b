"""Committee packs: the numbers of statements and core-hours, signed; and what their former addresses answer."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.core.signing import BadDocument, open_document
from apps.policies import services
from apps.policies.models import Grant, Policy
from apps.policies.publishing.direct import apply_dates
from apps.policies.records import NewChangeSet
from apps.policies.tree.stored import load_tree
from apps.series.days import site_zone
from tests.examples import first
from tests.instants import AT
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
OCTOBER = {"from": "2026-10", "to": "2026-10"}
AMOUNTS = ("entitled", "used", "lent", "missed", "unclear", "borrowed")


def _uid(policy: Policy, path: str = "/") -> UUID:
    tree = load_tree(policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


@pytest.fixture
def eva(hall: Policy) -> User:
    return User.objects.create_superuser("eva", "", "correct horse battery")


@pytest.fixture
def admin(eva: User, client: Client) -> Client:
    sign_in(client, eva)
    return client


def _asked(user: User, path: str, **asked: str) -> Any:
    actor = Actor(user=user, via="page")
    _token, secret = make_token(NewToken(name="t", scopes=[Token.Scope.POLICIES_READ], user=user), at=AT, actor=actor)
    return Client().get(f"/api/v1/policies/hall/{path}", asked, headers={"authorization": f"Bearer {secret}"})


def _rest(user: User, path: str, **asked: str) -> Any:
    answer = _asked(user, path, **asked)
    assert answer.status_code == 200, answer.content
    return answer.json()


def _give(policy: Policy) -> None:
    create_allocation(
        policy_slug=policy.slug,
        entry_uid=_uid(policy, "/physics"),
        terms=AllocationTerms(
            starts_on=date(2026, 10, 1), ends_on=date(2026, 11, 30), amount=1_234.0, reason="Round 7."
        ),
        at=AT,
        actor=COMMAND,
    )


def test_what_ends_names_its_unit_where_it_is_none_of_core_hours(hall: Policy, eva: User) -> None:
    units = [{"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}]
    services.change_settings(policy_slug="hall", settings={"units": units}, reason="x", at=AT, actor=COMMAND)
    days = {"starts_on": date(2026, 10, 1), "ends_on": date(2026, 11, 30)}
    terms = AllocationTerms(**days, amount=64.0, unit="GPU-h", reason="Round 7.")
    create_allocation(policy_slug="hall", entry_uid=_uid(hall, "/physics"), terms=terms, at=AT, actor=COMMAND)
    (ending,) = _rest(eva, "pack", **OCTOBER)["pack"]["expiring"]
    assert (ending["amount"], ending["unit"], "core_h" in ending) == (64.0, "GPU-h", False)


def test_a_pack_has_the_numbers_of_statements_and_core_hours(hall: Policy, eva: User) -> None:
    _give(hall)
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    assert {row["path"] for row in pack["balance"]} == {"/physics", "/biology"}
    for row in pack["balance"]:
        lines = _rest(eva, "statements", entry=row["path"], month="2026-10")["results"]
        (line,) = [one for one in lines if one["entry"] == row["entry_uid"] and one["month"] == "2026-10"]
        for name in AMOUNTS:
            assert row[f"{name}_h"] == pytest.approx(line["figures"][name] / 3600, rel=1e-12), name
    table = _rest(eva, "allocations/table", **{"from": "2026-10-01", "to": "2026-10-31"})
    rows = {one["path"]: one for one in table["results"]}
    (physics,) = [one for one in pack["allocations"]["rows"] if one["path"] == "/physics"]
    assert physics["delivered_core_h"] == pytest.approx(rows["/physics"]["delivered_core_h"])
    assert physics["allocated_core_h"] == pytest.approx(1_234 * 31 / 61)
    assert [(one["path"], one["on"], one["core_h"], one["is_covered"]) for one in pack["expiring"]] == [
        ("/physics", "2026-11-30", 1_234.0, False)
    ]
    assert [one["reason"] for one in pack["changes"]] == ["r"]
    (held,) = pack["held_back"]
    assert (held["path"], held["by_path"]) == ("/physics", "/biology")
    (missed,) = [row["missed_h"] for row in pack["balance"] if row["path"] == "/physics"]
    assert held["amount_h"] == pytest.approx(missed), "one sibling borrowed all of it"


@pytest.mark.parametrize("at_end", ["zero", "archive", 2.5, "keep"])
def test_expiring_entries_show_their_target_without_renewal(hall: Policy, eva: User, at_end: str | float) -> None:
    actor = Actor(user=eva, via="page")
    dates = {"op": "set_dates", "entry": "/physics", "dates": {"ends_on": "2026-12-20", "at_end": at_end}}
    draft = services.make_change_set(policy_slug=hall.slug, new=NewChangeSet(operations=[dates]), at=AT, actor=actor)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Until Christmas.", at=AT, actor=actor)
    (ending,) = [one for one in _rest(eva, "pack", **OCTOBER)["pack"]["expiring"] if one["kind"] == "shares_end"]
    assert (ending["path"], ending["on"]) == ("/physics", "2026-12-20")
    assert ending["target"] == pytest.approx(_target(hall, "/physics"))
    apply_dates(at=datetime(2026, 12, 21, 12, tzinfo=UTC), zone=site_zone())
    hall.refresh_from_db()
    if at_end == "keep":
        assert ending["target_after"] is None, "its shares stay"
    else:
        assert ending["target_after"] == pytest.approx(_target(hall, "/physics"))


def _target(policy: Policy, path: str) -> float:
    """Of an entry below the root, by the shares of the active revision; 0 where it is archived."""
    tree = load_tree(policy)
    shares = {tree.path(i): float(tree.shares[i]) for i in tree.children(0)}
    return shares.get(path, 0.0) / sum(shares.values())


def test_fairness_indices_follow_the_balance(hall: Policy, eva: User) -> None:
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    rows, fairness = pack["balance"], pack["fairness"]
    received = [row["used_h"] / row["entitled_h"] for row in rows]
    assert fairness["jain"] == pytest.approx(sum(received) ** 2 / (2 * sum(x * x for x in received)))
    used = sum(row["used_h"] for row in rows)
    beyond = sum(max(row["used_h"] - row["entitled_h"], 0.0) for row in rows)
    assert fairness["misplaced_percent"] == pytest.approx(100 * beyond / used)
    assert 0 < fairness["gini"] < 1


def test_the_signed_pack_has_the_same_numbers_and_its_checksum(hall: Policy, eva: User) -> None:
    _give(hall)
    answer = _rest(eva, "pack", **OCTOBER)
    opened = open_document(answer["signed"].encode(), trusted=None)
    assert opened.document["balance"] == answer["pack"]["balance"]
    assert (opened.digest, opened.key.fingerprint) == (answer["sha256"], answer["key"])


def test_a_changed_number_breaks_the_signature(hall: Policy, eva: User) -> None:
    signed = _rest(eva, "pack", **OCTOBER)["signed"].encode()
    forged = re.sub(rb'"used_h":\d+', b'"used_h":1', signed, count=1)
    assert forged != signed
    with pytest.raises(BadDocument):
        open_document(forged, trusted=None)


@pytest.mark.parametrize(
    "months",
    first(
        2,
        [
            {"from": "2026-13"},
            {"from": "2026-11", "to": "2026-10"},
            {"from": "2024-01", "to": "2026-10"},
            {"to": "2027-01"},
        ],
    ),
)
def test_impossible_periods_get_a_clear_answer(hall: Policy, eva: User, months: dict[str, str]) -> None:
    answer = _asked(eva, "pack", **months)
    assert answer.status_code == 422
    assert answer.json()["code"] in ("invalid", "bad_period")


def test_users_have_no_pack_and_are_in_none(hall: Policy, eva: User) -> None:
    assert _asked(eva, "pack", entry="/physics/alice", **OCTOBER).status_code == 422
    whole = _rest(eva, "pack", entry="/physics", **OCTOBER)
    assert "alice" not in whole["signed"]
    assert whole["pack"]["n_people_left_out"] == 2


def test_suppressed_values_stay_suppressed(hall: Policy) -> None:
    """A reader of sums: groups of two people are hidden from him in statements, and so in a pack."""
    vera = User.objects.create_user("vera", "", "correct horse battery")
    Grant.objects.create(
        policy=hall, entry_uid=_uid(hall), user=vera, verbs=["view_aggregate", "publish"], reason="board", created_at=AT
    )
    pack = open_document(_rest(vera, "pack", **OCTOBER)["signed"].encode(), trusted=None).document
    hidden = pack["balance"]
    assert hidden
    assert all(row["suppressed"] and row["used_h"] is None for row in hidden)
    assert all(row["delivered_core_h"] is None for row in pack["allocations"]["rows"])
    assert pack["held_back"] == []
    assert pack["fairness"] is None
