"""The mapping at each of its versions, after random edits: against plain lists that are edited alike."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, AuditEvent, User
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.mapping.changes import AddRule, Assign, Detach, Edit, MoveRule, RemoveRule, make_change, preview_change
from apps.mapping.models import MappingVersion
from apps.mapping.permissions import rights_in
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rule_set
from apps.mapping.services import set_rules
from apps.mapping.versions import (
    get_version_row,
    list_version_rows,
    mapping_at_version,
    version_at,
    version_number_at,
    version_of,
)
from apps.policies.tree.stored import load_tree
from tests.mapping.test_mapping_changes import actor_at
from tests.priority_site import AS_OF, Site, new_site

ORDER = {"exact": 0, "glob": 1, "group": 1, "default": 2}


@dataclass
class Lists:
    rules: list[Rule] = field(default_factory=list)
    attached: dict[int, UUID] = field(default_factory=dict)

    def sorted(self) -> tuple[Rule, ...]:
        return tuple(sorted((rule.stated for rule in self.rules), key=lambda rule: ORDER[rule.kind]))

    def copy(self) -> Lists:
        return Lists(list(self.sorted()), dict(self.attached))


def draw_edit(lists: Lists, draw: random.Random, entries: list[UUID], accounts: list[int]) -> Edit:
    """An edit, made in the lists too. Where a rule is put beyond those of its order, it becomes the last of them."""
    what = draw.choice(["add", "add", "assign", "assign", "move", "remove", "detach"])
    if what == "assign":
        places = {account: draw.choice(entries) for account in draw.sample(accounts, 2)}
        lists.attached |= places
        return Assign(places)
    if what == "detach" and lists.attached:
        gone = draw.choice(sorted(lists.attached))
        del lists.attached[gone]
        return Detach([gone])
    if what == "remove" and lists.rules:
        at = draw.randrange(len(lists.rules))
        del lists.rules[at]
        return RemoveRule(at)
    if what == "move" and len(lists.rules) > 1:
        at, to = draw.sample(range(len(lists.rules)), 2)
        lists.rules.insert(to, lists.rules.pop(at))
        lists.rules = list(lists.sorted())
        return MoveRule(at, to)
    kind = draw.choice(sorted(ORDER))
    rule = Rule(kind, draw.choice(entries), user_pattern="a*", group_pattern=draw.choice("abc"))
    lists.rules = [*lists.rules, rule]
    lists.rules = list(lists.sorted())
    return AddRule(rule)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_version_is_what_the_edits_until_then_made(site: Site, seed: int) -> None:
    policy, tree, draw = site.policy, load_tree(site.policy), random.Random(seed)
    entries = [tree.uuid(at) for at in range(1, len(tree)) if tree.name[at] != "alice"]
    accounts = sorted(Account.objects.values_list("pk", flat=True))
    first = version_of(policy)
    lists = Lists([rule.stated for rule in mapping_at_version(policy, first).rules])
    states = {first: lists.copy()}
    for n in range(1, 15):
        edited = lists.copy()
        edit = draw_edit(edited, draw, entries, accounts)
        at, before = AS_OF + timedelta(minutes=n), version_of(policy)
        change = partial(
            make_change, policy_slug=site.slug, edit=edit, reason="r", version=before, at=at, actor=COMMAND
        )
        if (edited.sorted(), edited.attached) == (lists.sorted(), lists.attached):
            with pytest.raises(Invalid, check=lambda error: error.code == "nothing_to_change"):
                change()
            continue
        number = change()
        assert (number, version_of(policy)) == (before + 1, before + 1)
        assert version_number_at(policy, at) == version_at(policy, at).number == number
        assert version_number_at(policy, at - timedelta(seconds=1)) == before
        details = AuditEvent.objects.latest("id").details
        assert ("rules" in details) is (edited.sorted() != lists.sorted())
        assert ("attached" in details) is (edited.attached != lists.attached)
        lists = edited
        states[number] = lists.copy()
    assert len(states) > 8
    rights = rights_in(site.slug, at=AS_OF, actor=COMMAND)
    for number, state in states.items():
        there = mapping_at_version(policy, number)
        assert tuple(rule.stated for rule in there.rules) == state.sorted()
        assert there.attached == state.attached
        row, former = get_version_row(rights, number), states.get(number - 1)
        assert [rule.stated for rule in row.rules] == list(state.sorted())
        if former is None:
            continue
        gone, new = Counter(former.sorted()), Counter(state.sorted())
        assert Counter(rule.stated for rule in row.added) == new - gone
        assert Counter(rule.stated for rule in row.removed) == gone - new
        assert row.is_reordered is (gone == new and former.sorted() != state.sorted())
        changed = {
            account: (former.attached.get(account), state.attached.get(account))
            for account in accounts
            if former.attached.get(account) != state.attached.get(account)
        }
        assert {each.account: (each.before, each.after) for _key, each in row.placements} == changed
        assert all(key is not None and key.namespace == "c1" for key, _placement in row.placements)
    numbers = [row.version.number for row in list_version_rows(rights)]
    assert numbers == sorted(states, reverse=True)
    assert [row.version.number for row in list_version_rows(rights, before=numbers[1], limit=2)] == numbers[2:4]


@pytest.mark.django_db
def test_before_its_first_version_a_mapping_has_the_number_zero_or_that_of_the_oldest_stored_one() -> None:
    policy = new_site().policy
    assert version_of(policy) == version_number_at(policy, AS_OF) == 0
    with pytest.raises(NotFound):
        version_at(policy, AS_OF)
    for number, known in ((1, 0), (2, 2), (7, 7)):
        MappingVersion.objects.all().delete()
        MappingVersion.objects.create(policy=policy, number=number, at=AS_OF, author_name="a")
        assert version_number_at(policy, AS_OF - timedelta(seconds=1)) == known
        assert version_number_at(policy, AS_OF) == number


def test_who_maps_a_part_reads_the_versions_of_their_own_and_nobody_else_any(site: Site) -> None:
    lena, others = actor_at(site, "lena", "/physics"), version_of(site.policy)
    rule = site.rule("/physics", user_pattern="z*", suffix="")
    own = make_change(policy_slug=site.slug, edit=AddRule(rule), reason="r", version=None, at=AS_OF, actor=lena)
    rights = rights_in(site.slug, at=AS_OF, actor=lena)
    assert [row.version.number for row in list_version_rows(rights)] == [own]
    assert [each.stated for each in get_version_row(rights, own).added] == [rule]
    for number in (others, own + 1, 0):
        with pytest.raises(NotFound):
            get_version_row(rights, number)
    assert [each.reach_uid for each in get_version_row(rights, own).added] == [rule.target_uid]
    everything = rights_in(site.slug, at=AS_OF, actor=COMMAND)
    assert [row.version.number for row in list_version_rows(everything)][:2] == [own, others]
    stranger = rights_in(site.slug, at=AS_OF, actor=Actor(User.objects.create_user("zoe"), "page"))
    for read in (list_version_rows, lambda rights: get_version_row(rights, own)):
        with pytest.raises(NotAllowed):
            read(stranger)


def test_who_maps_a_part_detaches_to_nowhere_what_they_attached_themselves(site: Site) -> None:
    lena, place = actor_at(site, "lena", "/physics"), site.rule("/physics/bob").target_uid
    site.job("guest", "visitors", 1)
    guest = Account.objects.get(user_name="guest").pk

    def refusal() -> str:
        return preview_change(policy_slug=site.slug, edit=Detach([guest]), at=AS_OF, actor=lena).refusal_key

    change = partial(make_change, policy_slug=site.slug, reason="r", version=None, at=AS_OF)
    change(edit=Assign({guest: place}), actor=COMMAND)
    assert refusal() == "drops"
    change(edit=Detach([guest]), actor=COMMAND)
    change(edit=Assign({guest: place}), actor=lena)
    assert refusal() == ""


def test_rules_that_are_set_are_the_next_version(site: Site) -> None:
    before = version_of(site.policy)
    rules = [site.rule("/physics", suffix="")]
    assert set_rules(policy_slug=site.slug, rules=rules, at=AS_OF, actor=COMMAND) == before + 1
    assert set_rules(policy_slug=site.slug, rules=rules, at=AS_OF, actor=COMMAND) == before + 1, "nothing changed"
    tree = load_tree(site.policy)
    assert not load_rule_set(site.policy, tree).has_membership_rules
    set_rules(policy_slug=site.slug, rules=[site.rule("/physics", kind="each", suffix="")], at=AS_OF, actor=COMMAND)
    assert load_rule_set(site.policy, tree).has_membership_rules
