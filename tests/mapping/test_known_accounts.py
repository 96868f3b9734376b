"""What a rule set knows of single accounts: owners in sign-in groups, and entries that accounts are attached to."""

from __future__ import annotations

from django.contrib.auth.models import Group

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.accounts.models import Account, User
from apps.mapping.changes import Assign, make_change
from apps.mapping.rules.rule import Person, Rule
from apps.mapping.rules.rule_set import load_known_accounts
from tests.priority_site import AS_OF, Site


def key(user: str, group: str) -> AccountKey:
    return AccountKey("c1", user, group)


def test_owners_and_attached_accounts_are_known_of_all_or_of_one_person(site: Site) -> None:
    groups = {name: Group.objects.create(name=name) for name in ("staff", "students", "board")}
    people = {name: User.objects.create_user(name) for name in ("ann", "ben", "cleo")}
    for name, of in (("ann", ("staff", "board")), ("ben", ("students",)), ("cleo", ("staff",))):
        people[name].groups.add(*(groups[each] for each in of))
    owned = {"alice": "ann", "bob": "ben", "carol": "cleo"}
    for account, owner in owned.items():
        Account.objects.filter(user_name=account).update(person=people[owner])
    User.objects.filter(username="cleo").update(is_active=False)
    ids = {account.user_name: account.pk for account in Account.objects.all()}
    entry = site.rule("/biology").target_uid
    make_change(
        policy_slug=site.slug,
        edit=Assign({ids["alice"]: entry, ids["bob"]: entry}),
        reason="r",
        version=None,
        at=AS_OF,
        actor=COMMAND,
    )
    alice, bob = key("alice", "physics"), key("bob", "physics")
    staff, everybody = (Rule("each", entry, people=pattern) for pattern in ("sta*", "st*"))
    known = load_known_accounts(site.policy, [everybody], of=None)
    assert known.persons == {
        alice: Person("ann", frozenset({"staff"})),
        bob: Person("ben", frozenset({"students"})),
    }
    assert known.places == {alice: entry, bob: entry}
    of_ann = load_known_accounts(site.policy, [everybody], of=people["ann"])
    assert (set(of_ann.persons), set(of_ann.places)) == ({alice}, {alice})
    assert set(load_known_accounts(site.policy, [staff], of=None).persons) == {alice}
    assert set(load_known_accounts(site.policy, [staff], of=people["ben"]).persons) == set()
    nothing = load_known_accounts(site.policy, [Rule("glob", entry)], of=people["ann"], with_attached=False)
    assert (nothing.persons, nothing.places) == ({}, {})
