"""Members of an entry: who counts there, for whom names are hidden, and what other rules would lead to."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from django.contrib.auth.models import Group

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import Account, User
from apps.core.errors import NotAllowed
from apps.mapping.permissions import MapRights
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors import open_view
from apps.priorities.selectors.members import MembersPreview, get_members_page, may_rule, preview_members
from tests.grants import make_grant
from tests.mapping.test_membership import uid_of
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db


def preview(site: Site, actor: Actor, *members: MembershipRule) -> MembersPreview:
    uid = UUID(uid_of(site, "/physics"))
    return preview_members(policy_slug=site.slug, entry_uid=uid, members=members, at=AS_OF, actor=actor)


@pytest.fixture
def waiting(site: Site) -> Site:
    """Accounts that no rule maps: zoe of a source's namespace and of a VO, yan who is in a sign-in group."""
    site.job("zoe", "students", 1, fqan="/vo/lab/Role=pilot")
    site.job("yan", "guests", 2)
    site.job("xia", "students", 1)
    yan = User.objects.create_user("yan-berg")
    yan.groups.add(Group.objects.create(name="oidc:physics"))
    Account.objects.filter(user_name="yan").update(person=yan)
    return site


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (MembershipRule(source="grid-c1"), ["carol", "xia", "yan", "zoe"]),
        (MembershipRule(source="grid-c1", group="stud*"), ["xia", "zoe"]),
        (MembershipRule(source="unknown"), []),
        (MembershipRule(fqan="/vo"), ["zoe"]),
        (MembershipRule(fqan="/v?/lab*"), ["zoe"]),
        (MembershipRule(fqan="/vo/l"), []),
        (MembershipRule(group="g[uo]ests"), []),
        (MembershipRule(people="oidc:physics"), ["yan-berg"]),
        (MembershipRule(people="oidc:*", group="students"), []),
    ],
)
def test_a_preview_names_those_who_match_every_condition(
    waiting: Site, as_eva: Actor, rule: MembershipRule, names: list[str]
) -> None:
    found = preview(waiting, as_eva, rule)
    assert found.names == names


def test_a_preview_without_rules_adds_nobody(waiting: Site, as_eva: Actor) -> None:
    assert preview(waiting, as_eva) == MembersPreview(0, 0, 0, 0, [])


def test_rules_are_set_by_those_who_may_map_divide_and_publish(site: Site) -> None:
    uid = UUID(uid_of(site, "/physics"))
    lead, manager = (User.objects.create_user(name) for name in ("lena", "max"))
    make_grant(lead, uid, "lead", policy=site.policy, reason="test")
    make_grant(manager, uid, policy=site.policy, reason="test")
    actors = [Actor(user=user, via="page") for user in (lead, manager)]
    pages = [get_members_page(policy_slug=site.slug, uid=uid, actor=actor) for actor in actors]
    assert [page.may_rule for page in pages] == [False, True]
    with pytest.raises(NotAllowed):
        preview(site, actors[0], MembershipRule(group="students"))
    reader = TokenBounds("fsh_x", frozenset({"policies:read"}))
    with pytest.raises(NotAllowed):
        preview(site, replace(actors[1], via="api", token=reader), MembershipRule(group="students"))


def test_a_reserve_has_no_membership_rules(site: Site, as_eva: Actor) -> None:
    site.publish([*PROJECTS, {"name": "spare", "kind": "reserve", "shares": 5}])
    view = open_view(policy_slug=site.slug, actor=as_eva)
    rights = MapRights(view.policy, view.tree, as_eva, view.now)
    may = {path: may_rule(rights, view.tree.index_of_path(path) or 0) for path in ("/physics", "/spare")}
    assert may == {"/physics": True, "/spare": False}
    page = get_members_page(policy_slug=site.slug, uid=view.tree.uuid(0), actor=as_eva)
    assert page.n_members == 0, "a reserve is no member"


def test_names_of_members_are_for_those_who_may_see_them(site: Site, as_eva: Actor, as_alice: Actor) -> None:
    site.recompute()
    Account.objects.filter(user_name="bob").update(person=as_alice.user)
    uid = UUID(uid_of(site, "/physics"))
    page = get_members_page(policy_slug=site.slug, uid=uid, actor=as_eva)
    assert [(line.entry.name, [one.person for one in line.accounts]) for line in page.members] == [
        ("alice", [""]),
        ("bob", ["alice"]),
    ]
    hidden = get_members_page(policy_slug=site.slug, uid=uid, actor=as_alice)
    assert (hidden.may_name, hidden.members, hidden.waiting, hidden.n_members) == (False, [], [], 2)


def test_members_without_accounts_are_listed(site: Site, as_eva: Actor) -> None:
    """Dan never ran; before the first snapshot nobody has accounts here."""
    uid = UUID(uid_of(site, "/biology"))
    for n_accounts in ([0, 0], [1, 0]):
        page = get_members_page(policy_slug=site.slug, uid=uid, actor=as_eva)
        assert [(line.entry.name, len(line.accounts)) for line in page.members] == list(
            zip(("carol", "dan"), n_accounts, strict=True)
        )
        site.recompute()
    dan = get_members_page(policy_slug=site.slug, uid=UUID(uid_of(site, "/biology/dan")), actor=as_eva)
    assert (dan.members, dan.waiting, dan.n_waiting) == ([], [], 0)
