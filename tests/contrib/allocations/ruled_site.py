"""A small site whose policy has rules of allocations, for tests of what they do."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.rules.acting import act_on_rules
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.policies.models import Allocation, Revision
from apps.policies.publishing.revert import revert_revision
from apps.policies.services import change_settings, publish_change_set
from apps.policies.tree.stored import load_tree
from tests.priority_site import AS_OF, Site

ZONE = ZoneInfo("UTC")
YEAR = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}


def rule(kind: str, terms: dict[str, Any], *, name: str = "", mode: str = "on", **fields: Any) -> dict[str, Any]:
    return {"name": name or kind.replace("_", " "), "kind": kind, "mode": mode, kind: terms, **fields}


def publish_rules(site: Site, *rules: dict[str, Any], at: datetime = AS_OF, **parts: Any) -> None:
    settings = {"rules": list(rules), **parts}
    change_settings(policy_slug=site.slug, settings=settings, reason="Rules.", at=at, actor=COMMAND)
    site.policy.refresh_from_db()


def uid_of(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def allocate(
    site: Site, amount: float, path: str = "/physics", *, at: datetime = AS_OF, unit: str = "core-h", **days: date
) -> Allocation:
    terms = AllocationTerms(**{**YEAR, **days}, amount=amount, unit=unit, reason="The board's.")
    return create_allocation(policy_slug=site.slug, entry_uid=uid_of(site, path), terms=terms, at=at, actor=COMMAND)


def act(site: Site, at: datetime = AS_OF, zone: ZoneInfo = ZONE) -> list[RuleStep]:
    steps = act_on_rules(at=at, zone=zone)
    site.policy.refresh_from_db()
    return steps


def shares(site: Site, path: str = "/physics") -> float:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    return float(tree.shares[i])


def undo(site: Site, number: int, at: datetime = AS_OF) -> Revision:
    draft = revert_revision(policy_slug=site.slug, number=number, at=at, actor=COMMAND)
    revision = publish_change_set(id=draft.pk, version=draft.version, at=at, actor=COMMAND)
    site.policy.refresh_from_db()
    return revision
