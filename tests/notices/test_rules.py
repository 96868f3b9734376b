"""Notice rules: the nearest one applies, each is set where its kind fits by those who manage the place."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.notices.kinds import kind_of, kinds
from apps.notices.models import Rule
from apps.notices.rules import (
    NEW,
    Place,
    RuleIndex,
    ensure_site_rules,
    get_rule,
    list_rules,
    may_set,
    place_of,
    remove_rule,
    set_rule,
)
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source
from tests.api.small_site import Site
from tests.instants import AT
from tests.refusals import refused


def page(user: User) -> Actor:
    return Actor(user=user, via="page")


def put(place: Place, kind: str = "drift", *, is_on: bool = True, actor: Actor = SYSTEM, **terms: Any) -> Rule:
    return set_rule(kind=kind, place=place, is_on=is_on, terms=terms, version=NEW, at=AT, actor=actor)


def at_entry(site: Site, path: str) -> Place:
    return Place(policy=site.policy, entry_uid=site.uid(path))


def test_a_missing_rule_of_the_site_is_made_as_its_kind_begins(site: Site) -> None:
    first = {rule.kind: rule.is_on for rule in Rule.objects.all()}
    assert first == {name: kind.is_on for name, kind in kinds().items()}
    Rule.objects.filter(kind="late_source").update(is_on=False)
    Rule.objects.filter(kind="drift").delete()
    for _twice in range(2):
        ensure_site_rules(at=AT)
    found = {rule.kind: rule.is_on for rule in Rule.objects.all()}
    assert found == {**first, "late_source": False}, "what was switched off stays off"


@pytest.mark.parametrize("name", kinds())
def test_without_any_rule_a_kind_applies_with_its_defaults_if_it_begins_switched_on(name: str) -> None:
    kind = kind_of(name)
    assert RuleIndex(kind, []).for_site() == (kind.defaults() if kind.is_on else None)


def test_the_nearest_rule_above_an_entry_applies_and_not_the_rule_at_it(site: Site) -> None:
    put(Place(policy=site.policy), days=5)
    put(at_entry(site, "/physics"), days=9)
    put(at_entry(site, "/biology"), is_on=False)
    tree = load_tree(site.policy)
    found = RuleIndex(kind_of("drift"), list(Rule.objects.all())).for_policy(site.policy, tree)
    terms = {tree.path(i): found.terms_at(i) for i in range(len(tree))}
    days = {path: None if each is None else each["days"] for path, each in terms.items()}
    assert days == {
        "/": 5, "/physics": 5, "/physics/alice": 9, "/physics/bob": 9, "/biology": 5, "/biology/carol": None,
    }  # fmt: skip
    assert not found.is_off


def test_the_rule_of_a_source_replaces_the_rule_of_the_site(site: Site) -> None:
    source = Source.objects.get()
    put(Place(source=source), "late_source", is_on=False)
    index = RuleIndex(kind_of("late_source"), list(Rule.objects.all()))
    assert index.for_source(source) is None
    assert index.for_site() == index.for_source(Source(slug="other")) == kind_of("late_source").defaults()


# --- Who sees and sets them -------------------------------------------------------------------------------------------
def test_rules_are_listed_where_their_place_is_visible(site: Site) -> None:
    put(Place(policy=site.policy))
    put(at_entry(site, "/physics"))
    put(at_entry(site, "/biology"))
    put(Place(policy=site.other))
    put(Place(source=Source.objects.get()), "late_source")
    Rule.objects.create(kind="of_a_package_that_is_gone", changed_at=AT)

    def listed(user: User, slug: str = "") -> list[tuple[str, str, str, bool]]:
        rows = list_rules(policy_slug=slug, at=AT, actor=page(user))
        assert {row.rule.kind for row in rows} == set(kinds())
        return sorted(
            (
                row.rule.policy.slug if row.rule.policy else "",
                row.path,
                row.rule.source.slug if row.rule.source else "",
                row.may_change,
            )
            for row in rows
            if row.rule.policy or row.rule.source
        )

    of_grid = [("grid", "", "", True), ("grid", "/biology", "", True), ("grid", "/physics", "", True)]
    assert listed(site.admin) == [("", "", "cluster-a", True), *of_grid, ("other", "", "", True)]
    assert listed(site.admin, "grid") == of_grid
    assert listed(site.pia, "grid") == [("grid", "", "", False), ("grid", "/physics", "", True)]
    assert listed(site.alice, "grid") == [("grid", "", "", False), ("grid", "/physics", "", False)]


def test_a_rule_that_is_hidden_or_of_a_removed_kind_is_answered_like_an_unknown_one(site: Site) -> None:
    hidden = put(at_entry(site, "/biology")).pk
    gone = Rule.objects.create(kind="of_a_package_that_is_gone", changed_at=AT).pk
    assert get_rule(id=hidden, at=AT, actor=page(site.ben)).path == "/biology"
    for number in (hidden, gone, 10**6, 0, 2**63):
        with refused(NotFound):
            get_rule(id=number, at=AT, actor=page(site.pia))


def test_a_rule_at_an_archived_entry_is_for_administrators_alone(site: Site) -> None:
    place = Place(policy=site.policy, entry_uid=uuid4())
    assert may_set(place, AT, page(site.admin))
    assert not may_set(place, AT, page(site.pia))
    with refused(NotFound):
        put(place, actor=page(site.pia))


@pytest.mark.parametrize(("path", "kind"), [("/biology", NotFound), ("/", NotAllowed), ("/physics", None)])
def test_managers_set_rules_at_their_entries(site: Site, path: str, kind: type[Any] | None) -> None:
    actor, place = page(site.pia), at_entry(site, path)
    if kind is None:
        assert put(place, actor=actor).version == 1
        return
    with refused(kind):
        put(place, actor=actor)


def test_a_place_is_a_policy_or_a_source_and_not_both(site: Site) -> None:
    admin, uid = page(site.admin), UUID(int=1)
    assert place_of(actor=admin) == Place()
    assert place_of(policy_slug="grid", entry_uid=uid, actor=admin) == Place(policy=site.policy, entry_uid=uid)
    assert place_of(source_slug="cluster-a", actor=admin) == Place(source=Source.objects.get())
    with refused(Invalid, field="source"):
        place_of(policy_slug="grid", source_slug="cluster-a", actor=admin)
    with refused(NotFound):
        place_of(source_slug="nothing", actor=admin)


@pytest.mark.parametrize("name", kinds())
def test_a_kind_is_set_only_where_it_watches(site: Site, name: str) -> None:
    source = Source.objects.get()
    places = {"site": Place(), "policy": Place(policy=site.policy), "source": Place(source=source)}
    fits = {kind_of(name).watches, "site"}
    for where, place in places.items():
        if where in fits:
            set_rule(kind=name, place=place, is_on=True, terms={}, version=where == "site", at=AT, actor=SYSTEM)
        else:
            with refused(Invalid, field="kind"):
                put(place, name)


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
        put(Place(policy=site.policy), **terms)


def test_a_limit_that_is_the_default_is_not_stored_and_follows_the_default(site: Site) -> None:
    default = kind_of("drift").defaults()["days"]
    assert put(Place(policy=site.policy), days=default).terms == {}
    assert put(at_entry(site, "/physics"), days=default + 1).terms == {"days": default + 1}


def test_a_removed_rule_leaves_the_one_above_and_the_rule_of_the_site_stays(site: Site) -> None:
    rule = put(Place(policy=site.policy))
    with refused(Stale):
        remove_rule(id=rule.pk, version=rule.version + 1, at=AT, actor=SYSTEM)
    remove_rule(id=rule.pk, version=rule.version, at=AT, actor=SYSTEM)
    assert not Rule.objects.filter(policy=site.policy).exists()
    of_site = Rule.objects.get(kind="drift")
    with refused(Conflict, "site_rule"):
        remove_rule(id=of_site.pk, version=of_site.version, at=AT, actor=SYSTEM)
