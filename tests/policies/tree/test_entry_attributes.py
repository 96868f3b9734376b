"""Dates, membership rules and corrections of usage: read, rejected, published, and undone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest

from apps.core.errors import Conflict, Invalid, NotFound
from apps.policies.operations.adjustment_edits import AddedAdjustment
from apps.policies.operations.apply import apply_operations, tree_after
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.terms import Dates, MembershipRule, read_dates, read_members
from apps.policies.tree.working_tree import columns_of


def _node(tree: TreeColumns, path: str) -> Any:
    at = tree.index_of_path(path)
    assert at is not None
    return tree.node(at)


def test_dates_have_first_day_last_day_and_action(tree: TreeColumns) -> None:
    dates = {"starts_on": "2027-01-01", "ends_on": "2027-03-31", "shares": 20, "at_end": "zero"}
    after = tree_after(tree, [{"op": "set_dates", "entry": "/physics", "dates": dates}])
    assert _node(after, "/physics").dates == Dates(date(2027, 1, 1), date(2027, 3, 31), 20.0, "zero")
    without = tree_after(after, [{"op": "set_dates", "entry": "/physics", "dates": None}])
    assert without.same_as(tree)


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        ({}, "starts_on or ends_on is needed"),
        ({"ends_on": "2027-02-30"}, "must be a day"),
        ({"ends_on": 5}, "must be a day"),
        ({"starts_on": "2027-03-01", "ends_on": "2027-02-01"}, "is before"),
        ({"ends_on": "2027-02-01", "at_end": "vanish"}, "at_end is keep, zero, archive, or a number"),
        ({"ends_on": "2027-02-01", "at_end": -1}, "number of shares"),
        ({"starts_on": "2027-02-01", "at_end": "zero"}, "at_end needs ends_on"),
        ({"ends_on": "2027-02-01", "shares": 3}, "take effect on starts_on"),
        ({"until": "2027-02-01"}, "'until' is unknown"),
        ("2027-02-01", "must be an object"),
    ],
)
def test_invalid_dates_are_refused(tree: TreeColumns, dates: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_dates(dates)
    with pytest.raises(Invalid, match=r"operations\[0\].dates"):
        tree_after(tree, [{"op": "set_dates", "entry": "/physics", "dates": dates}])


def test_a_membership_rule_makes_a_leaf_a_group(tree: TreeColumns) -> None:
    rule = {"source": "slurm-a", "group": "phys*", "shares": 2, "archive_after_days": 90}
    after = tree_after(tree, [{"op": "set_members", "entry": "/physics", "members": [rule]}])
    assert _node(after, "/physics").members == (MembershipRule("slurm-a", "phys*", shares=2.0, archive_after_days=90),)
    assert tree_after(after, [{"op": "set_members", "entry": "/physics", "members": []}]).same_as(tree)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "a condition is needed"),
        ({"shares": 1}, "a condition is needed"),
        ({"group": "x", "shares": "parent"}, "shares is a number"),
        ({"group": "x", "shares": float("nan")}, "shares|number"),
        ({"group": "x", "archive_after_days": 0}, "archive_after_days"),
        ({"group": "x", "archive_after_days": True}, "archive_after_days"),
        ({"group": "x", "days": 3}, "'days' is unknown"),
        ({"source": "a/b"}, "'/'"),
        (7, "must be an object"),
    ],
)
def test_invalid_membership_rules_are_refused(rule: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_members([rule])


def test_terms_survive_the_blob_the_rows_and_a_move(tree: TreeColumns) -> None:
    changed = tree_after(
        tree,
        [
            {"op": "set_dates", "entry": "/physics", "dates": {"ends_on": "2027-03-31", "at_end": 5}},
            {"op": "set_members", "entry": "/physics", "members": [{"people": "oidc:physics"}]},
            {"op": "add", "parent": "/", "name": "aaa-first"},
        ],
    )
    node = _node(changed, "/physics")
    assert (node.dates, len(node.members)) == (Dates(ends_on=date(2027, 3, 31), at_end=5.0), 1)
    blob, digest = pack_tree(changed)
    assert unpack_tree(blob, digest).same_as(changed)
    assert columns_of(list(changed.nodes())[::-1]).same_as(changed)
    moved = tree_after(changed, [{"op": "move", "entry": "/physics", "parent": "/aaa-first"}])
    assert _node(moved, "/aaa-first/physics").dates == node.dates
    assert not tree_after(changed, [{"op": "archive", "entry": "/physics"}]).dates


def test_an_adjustment_is_dated_signed_and_stored_apart_from_the_tree(tree: TreeColumns) -> None:
    operation = {
        "op": "adjust_usage",
        "entry": "/physics",
        "resource": "cpu_s",
        "amount_s": -3600,
        "at": "2026-11-01T00:00:00+01:00",
        "note": "node42 failed",
    }
    outcome = apply_operations(tree, [operation])
    assert not outcome.changes
    assert not outcome.is_empty
    (adjusted,) = outcome.adjusting
    assert isinstance(adjusted, AddedAdjustment)
    assert adjusted.at == datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert outcome.operations[0]["uid"] == str(adjusted.uid)
    again = apply_operations(tree, outcome.operations)
    assert again.adjusting == outcome.adjusting


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount_s": 0}, "amount_s"),
        ({"amount_s": float("inf")}, "amount_s"),
        ({"amount_s": True}, "amount_s"),
        ({"amount_s": 1e19}, "must be from"),
        ({"resource": "coffee"}, "resource must be one of"),
        ({"at": "2026-11-01T00:00:00"}, "needs a zone"),
        ({"at": "yesterday"}, "at must be an instant"),
        ({"at": None}, "at must be an instant"),
        ({"uid": "x"}, "uid must be a UUID"),
    ],
)
def test_an_imprecise_adjustment_is_refused(tree: TreeColumns, change: dict[str, Any], message: str) -> None:
    operation = {"op": "adjust_usage", "entry": "/physics", "amount_s": 60, "at": "2026-11-01T00:00:00Z", **change}
    with pytest.raises(Invalid, match=message):
        apply_operations(tree, [operation])


def test_an_adjustment_needs_an_existing_entry(tree: TreeColumns) -> None:
    with pytest.raises(NotFound):
        apply_operations(
            tree, [{"op": "adjust_usage", "entry": "/nobody", "amount_s": 60, "at": "2026-11-01T00:00:00Z"}]
        )


@pytest.mark.django_db
def test_adjustments_are_part_of_revisions(policy: Any, tree: TreeColumns, alice: Any) -> None:
    from apps.policies import services
    from apps.policies.models import Adjustment

    at = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def publish(operation: dict[str, Any]) -> int:
        drafted = services.make_change_set(
            policy_slug=policy.slug, new=NewChangeSet(operations=[operation]), at=at, actor=alice
        )
        return services.publish_change_set(
            id=drafted.pk, version=drafted.version, reason="A refund.", at=at, actor=alice
        ).number

    first = publish({"op": "adjust_usage", "entry": "/physics", "amount_s": -60, "at": "2026-11-01T00:00:00Z"})
    row = Adjustment.objects.get()
    assert (row.since, row.until, row.amount_s, row.reason) == (first, None, -60.0, "A refund.")
    second = publish({"op": "adjust_usage", "entry": "/physics", "revokes": str(row.uid)})
    row.refresh_from_db()
    assert row.until == second
    with pytest.raises(Conflict, match="no active adjustment"):
        publish({"op": "adjust_usage", "entry": "/physics", "revokes": str(UUID(int=5))})
