"""Targets by day, from versions of entries, are those that the engine computes from each day's whole tree."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from apps.engine.algorithms.inputs import prepare
from apps.policies.models import Policy, Revision
from apps.policies.tree.past_targets import past_targets
from apps.policies.tree.stored import load_tree
from tests.priority_site import AS_OF, new_site

pytestmark = pytest.mark.django_db
ZONE = ZoneInfo("Europe/Stockholm")
MOST_DRAWN_DEPTH = 3


def draw_children(rng: random.Random, depth: int = 1) -> list[dict[str, Any]]:
    """Siblings of which some inherit, have no shares, or have children of their own."""
    names = rng.sample("abcde", rng.randint(2, 4))
    drawn = []
    for name in names:
        is_group = depth < MOST_DRAWN_DEPTH and rng.random() < 0.6
        entry: dict[str, Any] = {"name": f"{name}{depth}", "kind": "group" if is_group else "user"}
        entry["shares"] = rng.choice((0, 1, 2, 5, 0.1, "parent"))
        if is_group:
            entry["children"] = draw_children(rng, depth + 1)
        drawn.append(entry)
    return drawn


def by_the_engine(policy: Policy, days: list[datetime]) -> list[dict[UUID, float]]:
    """Of each day, targets under the revision that is current when it ends; before the first with entries, under that.

    An entry that inherits has none.
    """
    with_entries = list(Revision.objects.filter(policy=policy, n_entries__gt=1).order_by("number"))
    of_revision = {row.number: _targets(policy, row.number) for row in with_entries}
    targets = []
    for on in days:
        midnight = on.astimezone(ZONE).replace(hour=0, minute=0, second=0, microsecond=0)
        end = (midnight + timedelta(days=1)).astimezone(ZONE)
        first = with_entries[0].number
        targets.append(of_revision[max([row.number for row in with_entries if row.published_at < end], default=first)])
    return targets


def _targets(policy: Policy, number: int) -> dict[UUID, float]:
    tree = load_tree(policy, number)
    prepared = prepare(tree.engine_tree())
    targets = prepared.spread(prepared.target_global)
    return {tree.uuid(i): float(targets[i]) for i in range(len(tree)) if not (i and tree.inherit[i])}


@pytest.mark.parametrize("seed", range(3))
def test_targets_of_past_days_are_those_of_their_revisions(seed: int) -> None:
    rng, site = random.Random(seed), new_site()
    instants = sorted(AS_OF - timedelta(hours=rng.uniform(1, 24 * 20)) for _ in range(7))
    instants[3] = instants[2].astimezone(ZONE).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for at in sorted(instants):
        site.publish(draw_children(rng), at=at)
    uids = {uid for row in Revision.objects.filter(policy=site.policy) for uid in _uids(site.policy, row.number)}
    targets = past_targets(policy=site.policy, uids=uids, zone=ZONE)
    assert any(len(spans) > 2 for spans in targets.values())
    days = [AS_OF - timedelta(days=n) for n in range(-1, 23)]
    computed_by_day = by_the_engine(site.policy, days)
    for uid, spans in targets.items():
        assert [span.since for span in spans] == sorted(span.since for span in spans)
        assert all(before.target_global != after.target_global for before, after in pairwise(spans))
        for on, of_day in zip(days, computed_by_day, strict=True):
            shown = [span.target_global for span in spans if span.since <= on][-1]
            computed = of_day.get(uid)
            assert (shown is None) == (computed is None), (uid, on)
            assert computed is None or shown == pytest.approx(computed, rel=1e-12), (uid, on)


def _uids(policy: Policy, number: int) -> list[Any]:
    tree = load_tree(policy, number)
    return [tree.uuid(i) for i in range(len(tree))]
