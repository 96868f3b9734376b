"""Notice rules: the policy's before the site's, each set by those who manage the place."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import User
from apps.contrib.notices.kinds import KINDS, kind_of
from apps.contrib.notices.models import Rule
from apps.contrib.notices.places import Place, may_set, place_of, require_place
from apps.contrib.notices.rules import NEW, RuleIndex, ensure_site_rules, get_rule, list_rules, remove_rule, set_rule
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.policies.models import Policy
from tests.grants import make_grant
from tests.instants import AT
from tests.refusals import refused
from tests.small_site import Site


def page(user: User) -> Actor:
    return Actor(user=user, via="page")


def put(
    policy: Policy | None, kind: str = "waiting_decisions", *, is_on: bool = True, actor: Actor = SYSTEM, **terms: Any
) -> Rule:
    return set_rule(kind=kind, policy=policy, is_on=is_on, terms=terms, version=NEW, at=AT, actor=actor)


def test_a_missing_rule_of_the_site_is_made_switched_on(site: Site) -> None:
    names = {kind.name for kind in KINDS}
    assert {rule.kind: rule.is_on for rule in Rule.objects.all()} == dict.fromkeys(names, True)
    Rule.objects.filter(kind="late_source").update(is_on=False)
    Rule.objects.filter(kind="waiting_decisions").delete()
    for _twice in range(2):
        ensure_site_rules(at=AT)
    found = {rule.kind: rule.is_on for rule in Rule.objects.all()}
    assert found == {**dict.fromkeys(names, True), "late_source": False}, "what was switched off stays off"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_without_any_rule_a_kind_applies_with_its_defaults(site: Site, kind: Any) -> None:
    index = RuleIndex(kind, [])
    assert index.for_site() == index.for_policy(site.policy) == kind.defaults()


def test_the_rule_of_a_policy_applies_there_in_place_of_the_rule_of_the_site(site: Site) -> None:
    put(site.policy, days=5)
    index = RuleIndex(kind_of("waiting_decisions"), list(Rule.objects.all()))
    assert (index.for_policy(site.policy), index.for_policy(site.other)) == ({"days": 5}, {"days": 3})
    put(site.other, is_on=False)
    index = RuleIndex(kind_of("waiting_decisions"), list(Rule.objects.all()))
    assert (index.for_site(), index.for_policy(site.other)) == ({"days": 3}, None)


def test_rules_are_listed_where_their_policy_is_visible(site: Site) -> None:
    put(site.policy)
    put(site.other)
    Rule.objects.create(kind="of_a_later_version", changed_at=AT)

    def listed(user: User, slug: str = "") -> list[tuple[str, bool]]:
        rows = list_rules(policy_slug=slug, at=AT, actor=page(user))
        assert {row.rule.kind for row in rows} == {kind.name for kind in KINDS}
        return sorted((row.rule.policy.slug, row.may_change) for row in rows if row.rule.policy)

    assert listed(site.admin) == [("grid", True), ("other", True)]
    assert listed(site.admin, "grid") == [("grid", True)]
    assert listed(site.pia, "grid") == listed(site.alice, "grid") == [("grid", False)]
    make_grant(site.ben, site.uid("/"), "manager", policy=site.policy, reason="test")
    assert listed(site.ben, "grid") == [("grid", True)]


def test_a_rule_that_is_hidden_or_of_an_unknown_kind_is_answered_like_an_unknown_one(site: Site) -> None:
    hidden = put(site.other).pk
    Policy.objects.filter(pk=site.other.pk).update(visibility="path")
    gone = Rule.objects.create(kind="of_a_later_version", changed_at=AT).pk
    assert get_rule(id=hidden, at=AT, actor=page(site.admin)).rule.policy == site.other
    for number in (gone, 10**6, 0, 2**63):
        with refused(NotFound):
            get_rule(id=number, at=AT, actor=page(site.admin))


def test_the_place_of_an_archived_entry_is_for_administrators_alone(site: Site) -> None:
    place = Place(policy=site.policy, entry_uid=uuid4())
    assert may_set(place, AT, page(site.admin))
    assert not may_set(place, AT, page(site.pia))
    with refused(NotFound):
        require_place(place, AT, page(site.pia))


@pytest.mark.parametrize(("path", "kind"), [("/biology", NotFound), ("/", NotAllowed), ("/physics", None)])
def test_managers_decide_at_their_entries(site: Site, path: str, kind: type[Any] | None) -> None:
    actor, place = page(site.pia), Place(policy=site.policy, entry_uid=site.uid(path))
    if kind is None:
        require_place(place, AT, actor)
        return
    with refused(kind):
        require_place(place, AT, actor)


def test_rules_are_set_by_administrators_and_managers_of_the_whole_policy(site: Site) -> None:
    for policy in (None, site.policy):
        with refused(NotAllowed):
            put(policy, actor=page(site.pia))
    make_grant(site.ben, site.uid("/"), "manager", policy=site.policy, reason="test")
    assert put(site.policy, actor=page(site.ben)).version == 1
    with refused(NotAllowed):
        put(None, actor=page(site.ben))


def test_a_place_is_the_site_or_in_a_policy(site: Site) -> None:
    admin, uid = page(site.admin), UUID(int=1)
    assert place_of(actor=admin) == Place()
    assert place_of(policy_slug="grid", entry_uid=uid, actor=admin) == Place(policy=site.policy, entry_uid=uid)
    with refused(NotFound):
        place_of(policy_slug="nothing", actor=admin)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_that_watches_sources_or_the_site_is_set_for_the_site_alone(site: Site, kind: Any) -> None:
    set_rule(kind=kind.name, policy=None, is_on=True, terms={}, version=1, at=AT, actor=SYSTEM)
    if kind.watches == "policy":
        put(site.policy, kind.name)
        return
    with refused(Invalid, field="kind"):
        put(site.policy, kind.name)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"days": 0}, "days"),
        ({"days": 2.5}, "days"),
        ({"days": True}, "days"),
        ({"days": "4"}, "days"),
        ({"x": 1}, "x"),
    ],
)
def test_a_limit_is_a_number_of_its_range(site: Site, terms: dict[str, Any], field: str) -> None:
    with refused(Invalid, field=f"terms.{field}"):
        put(site.policy, **terms)


def test_a_limit_that_is_the_default_is_not_stored_and_follows_the_default(site: Site) -> None:
    default = kind_of("waiting_decisions").defaults()["days"]
    assert put(site.policy, days=default).terms == {}
    assert put(site.other, days=default + 1).terms == {"days": default + 1}


def test_a_removed_rule_leaves_the_rule_of_the_site_which_stays(site: Site) -> None:
    rule = put(site.policy)
    with refused(Stale):
        remove_rule(id=rule.pk, version=rule.version + 1, at=AT, actor=SYSTEM)
    remove_rule(id=rule.pk, version=rule.version, at=AT, actor=SYSTEM)
    assert not Rule.objects.filter(policy=site.policy).exists()
    of_site = Rule.objects.get(kind="waiting_decisions")
    with refused(Conflict, "site_rule"):
        remove_rule(id=of_site.pk, version=of_site.version, at=AT, actor=SYSTEM)
