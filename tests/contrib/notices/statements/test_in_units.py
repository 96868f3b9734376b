"""Statements give the usage of a month in each unit of a policy, side by side; none with the core-hour alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.notices.statements.in_units import InUnit
from apps.contrib.notices.statements.selectors import StatementPage, get_statements
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from tests import priority_site
from tests.priority_site import AS_OF, PROJECTS, Site

_clock, make_site, as_alice = priority_site._clock, priority_site.make_site, priority_site.as_alice
pytestmark = pytest.mark.django_db
UNITS = [
    {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}},
    {"name": "Service unit", "symbol": "SU", "weights": {"cpu_s": 1, "gpu_s": 64}},
]


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.job("alice", "physics", 40, ago_h=1, gpus=0.5)
    site.job("bob", "physics", 2, ago_h=24 * 40)  # in another month
    site.recompute()
    return site


def page(site: Site, path: str = "/physics") -> StatementPage:
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    return get_statements(
        policy_slug=site.slug, uid=tree.uuid(tree.index_of_path(path) or 0), month=f"{AS_OF:%Y-%m}", actor=COMMAND
    )


def test_a_month_is_stated_in_each_unit(site: Site) -> None:
    change_settings(policy_slug=site.slug, settings={"units": UNITS}, reason="x", at=AS_OF, actor=COMMAND)
    shown = page(site)
    assert shown.chosen.in_units == (InUnit("core-h", 40), InUnit("GPU-h", 0.5), InUnit("SU", 40 + 64 * 0.5))
    of_children = {line.name: line.in_units for line in shown.children}
    assert of_children["alice"] == shown.chosen.in_units
    assert [each.delivered for each in of_children["bob"]] == [0, 0, 0]


def test_a_policy_in_core_hours_alone_states_none(site: Site) -> None:
    assert page(site).chosen.in_units == ()
