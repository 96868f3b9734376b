"""What the system or a program publishes: nothing that changes nothing, and nothing over a newer head."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.errors import Invalid, Stale
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import (
    apply_dates,
    create_policy_from_tree,
    publish_automatic,
    publish_operations,
    publish_tree,
)
from apps.policies.records import NewTree
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.terms import MountedPublication
from tests.instants import AT

MOUNT = {"op": "mount", "entry": "/physics", "mount": MountedPublication("vo-a.example", "vo-a").to_json()}


def publish(*operations: dict[str, Any]) -> None:
    publish_operations(policy_slug="grid", operations=operations, reason="r", at=AT, actor=COMMAND)


def automatic(policy: Policy, *operations: dict[str, Any]) -> object:
    return publish_automatic(policy_id=policy.pk, operations=operations, origin="rule", reason="Rules.", at=AT)


def n_left_out() -> int:
    return AuditEvent.objects.filter(verb="policy.automatic", outcome="failed").count()


@pytest.mark.parametrize(
    ("paths", "n_failed"), [([], 0), (["/physics"], 0), (["/nowhere"], 1), (["/physics", "/nowhere", "/elsewhere"], 2)]
)
def test_nothing_is_published_where_nothing_changes(policy: Policy, paths: list[str], n_failed: int) -> None:
    n_change_sets = ChangeSet.objects.count()
    assert automatic(policy, *[{"op": "set_shares", "entry": path, "shares": 30} for path in paths]) is None
    policy.refresh_from_db()
    assert (policy.head_number, ChangeSet.objects.count(), n_left_out()) == (2, n_change_sets, n_failed)


def test_dates_below_a_mount_publish_nothing(policy: Policy) -> None:
    ending = {"ends_on": "2026-12-01", "at_end": "zero"}
    publish({"op": "set_dates", "entry": "/physics/bob", "dates": ending})
    publish(MOUNT)
    assert apply_dates(at=AT.replace(year=AT.year + 1), zone=ZoneInfo("UTC")) == []
    policy.refresh_from_db()
    assert policy.head_number == 4
    assert n_left_out() == 2  # the shares, and the dates that end with them


@pytest.mark.parametrize(
    ("slug", "name", "places"),
    [("Not a slug", "New", ["slug"]), ("new", "a\u202eb", ["name"]), ("", "", ["slug", "name"])],
)
def test_a_new_policy_reports_slug_and_name_together(
    tree: TreeColumns, slug: str, name: str, places: list[str]
) -> None:
    with pytest.raises(Invalid) as refused:
        create_policy_from_tree(
            slug=slug, name=name, tree=tree, settings=PolicySettings(), reason="r", at=AT, actor=COMMAND
        )
    assert [field.where for field in refused.value.fields] == places
    assert Policy.objects.count() == 1


def test_a_whole_tree_is_published_over_its_own_base_only(policy: Policy, tree: TreeColumns) -> None:
    publish({"op": "set_shares", "entry": "/physics", "shares": 31})
    new = NewTree(tree=tree, settings=PolicySettings(), base_revision=2, reason="r", origin="import")
    with pytest.raises(Stale):
        publish_tree(policy_slug="grid", new=new, at=AT, actor=COMMAND)
    policy.refresh_from_db()
    assert policy.head_number == 3
