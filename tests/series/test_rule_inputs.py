"""What rules take from elsewhere decides past days, too: namespaces of sources, and members of sign-in groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.mapping.rules.rule_set import RuleInputs
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.fingerprint import read_fingerprint
from apps.series.stored_series import series_state
from apps.usage.models import Source
from apps.usage.services import NewSource, make_source
from apps.usage.sources.services import change_source, tag_of
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site
from tests.priority_site import build_series as build
from tests.series.test_series import DAY, TODAY, publish, read

pytestmark = pytest.mark.django_db
MEMBERS = {"name": "guests", "kind": "group", "shares": 10, "members": [{"source": "late"}]}


def change_namespace(slug: str, namespace: str) -> None:
    source = Source.objects.get(slug=slug)
    settings = {"namespace": namespace}
    change_source(slug=slug, tag=tag_of(source), new_settings=settings, at=AS_OF, actor=COMMAND)


@pytest.fixture
def with_rule(make_site: Callable[..., Site]) -> Site:
    """A rule for the accounts of a source without records, whose namespace is mistyped."""
    site = make_site()
    publish(site, PROJECTS, NO_AGING, AS_OF - 10 * DAY)
    make_source(NewSource(slug="late", name="late", namespace="wrong"), at=AS_OF, actor=COMMAND)
    site.map(site.rule(source="late"))
    site.job("alice", "physics", 40, ago_h=30)
    build(site)
    return site


def test_another_namespace_of_a_source_that_a_rule_names_is_computed_anew(with_rule: Site) -> None:
    site = with_rule
    before = read_fingerprint(site.policy, as_of=AS_OF).digest
    assert not read(site, "/physics").used.any()
    change_namespace("late", "c1")
    assert read_fingerprint(site.policy, as_of=AS_OF).digest != before
    assert series_state(site.policy).stale_from_on == TODAY - 10 * DAY
    build(site)
    assert read(site, "/physics").used.sum() == 40 * 3600
    change_namespace("late", "c1")
    assert series_state(site.policy).stale_from_on is None


def test_another_namespace_of_a_source_that_no_rule_names_changes_nothing(with_rule: Site) -> None:
    make_source(NewSource(slug="other", name="other", namespace="o"), at=AS_OF, actor=COMMAND)
    before = read_fingerprint(with_rule.policy, as_of=AS_OF).digest
    change_namespace("other", "c1")
    assert read_fingerprint(with_rule.policy, as_of=AS_OF).digest == before
    assert series_state(with_rule.policy).stale_from_on is None


def test_a_source_that_only_a_membership_rule_of_a_former_revision_names_is_an_input_of_its_days(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    publish(site, [*PROJECTS, MEMBERS], NO_AGING, AS_OF - 10 * DAY)
    publish(site, PROJECTS, NO_AGING, AS_OF - 5 * DAY)
    site.map()
    site.job("alice", "physics", 1, ago_h=24 * 8)
    build(site)
    assert RuleInputs.of_revisions(site.policy).namespaces == {"late": ""}
    assert RuleInputs.of_tree(site.policy, load_tree(site.policy)).namespaces == {}
    make_source(NewSource(slug="late", name="late", namespace="c1"), at=AS_OF, actor=COMMAND)
    assert series_state(site.policy).stale_from_on == TODAY - 10 * DAY
    build(site)
    change_namespace("late", "c2")
    assert series_state(site.policy).stale_from_on == TODAY - 10 * DAY


def test_a_revision_with_its_first_rule_for_a_source_rebuilds_no_past_days(with_rule: Site) -> None:
    members: dict[str, Any] = {**MEMBERS, "members": [{"source": "new"}]}
    publish(with_rule, [*PROJECTS, members], NO_AGING, AS_OF)
    assert series_state(with_rule.policy).stale_from_on is None
