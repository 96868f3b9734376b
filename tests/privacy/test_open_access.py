"""A site opens a part of a policy to all signed-in users: by a grant, with reason, end, audit and an explanation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Invalid, NotAllowed
from apps.mapping.permissions import load_visibility
from apps.policies.access.authority import GrantChange, GrantTerms
from apps.policies.access.delegation import change_grant, create_grant, end_grant, tag_of
from apps.policies.access.role_holders import explain_access, list_grants, name_of
from apps.policies.access.scope import EVERYBODY, Verb
from apps.policies.models import Grant
from apps.priorities.selectors import open_view
from tests.instants import AT
from tests.rest_site import Caller, site  # noqa: F401 - fixtures
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

SIGHT = ["view_aggregate", "view_members"]


def give(site: Site, path: str, actor: Actor, verbs: list[str] = SIGHT, **more: Any) -> Grant:  # noqa: F811
    return create_grant(
        policy_slug="grid",
        entry_uid=site.uid(path),
        terms=GrantTerms(people=EVERYBODY, role="viewer", verbs=verbs, reason="The department wants it open.", **more),
        at=AT,
        actor=actor,
    )


def by(user: User) -> Actor:
    return Actor(user=user, via="page")


def visible_paths(site: Site, user: User) -> dict[str, bool]:  # noqa: F811
    """Paths that a user sees, and whether their numbers are shown."""
    view = open_view(policy_slug="grid", actor=by(user))
    return {view.tree.path(i): bool(view.shows_numbers[i]) for i in range(len(view.tree)) if view.visibility.may_see(i)}


def test_a_subtree_is_opened_to_all_users_until_a_day(site: Site) -> None:  # noqa: F811
    site.recompute()
    assert visible_paths(site, site.nobody) == {}
    give(site, "/biology", by(site.admin), expires_at=AT + timedelta(days=9))
    assert visible_paths(site, site.nobody) == dict.fromkeys(("/", "/biology", "/biology/carol"), True)
    own = ("/physics", "/physics/alice")
    assert visible_paths(site, site.alice) == dict.fromkeys(("/", *own, "/biology", "/biology/carol"), True)
    tree = open_view(policy_slug="grid", actor=by(site.nobody)).tree
    later = load_visibility(policy=site.policy, tree=tree, at=AT + timedelta(days=10), actor=by(site.nobody))
    assert not later.mask.any()


def test_only_totals_can_be_opened(site: Site) -> None:  # noqa: F811
    site.recompute()
    give(site, "/", by(site.admin), ["view_aggregate"])
    assert visible_paths(site, site.nobody) == dict.fromkeys(
        ("/", "/biology", "/physics"), False
    )  # of two people and one


def test_opening_names_its_audience_and_is_audited(site: Site) -> None:  # noqa: F811
    grant = give(site, "/biology", by(site.admin))
    assert grant.people == EVERYBODY
    assert name_of(grant) not in ("", EVERYBODY), "in words"
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.subject) == ("grant.given", EVERYBODY)
    lines = list_grants(policy_slug="grid", entry_uid=site.uid("/biology"), at=AT, actor=by(site.admin))
    assert [line.grant.reason for line in lines if line.grant.people == EVERYBODY] == ["The department wants it open."]
    found = explain_access(
        policy_slug="grid",
        entry_uid=site.uid("/biology"),
        username="",
        at=AT,
        actor=by(site.nobody),
        visibility=load_visibility,
    )
    [answer] = [each for each in found.verbs if each.verb == Verb.VIEW_MEMBERS]
    assert answer.is_held
    assert answer.grounds[0].grant == grant
    end_grant(policy_slug="grid", grant_id=grant.pk, tag=tag_of(grant), reason="closed", at=AT, actor=by(site.admin))
    tree = open_view(policy_slug="grid", actor=by(site.nobody)).tree
    assert not load_visibility(policy=site.policy, tree=tree, at=AT, actor=by(site.nobody)).mask.any()


def assert_only_sight(refused: Invalid) -> None:
    """The refusal names the verbs that may be granted to all users."""
    assert [field.where for field in refused.fields] == ["verbs"]
    assert [verb for verb in SIGHT if verb not in refused.fields[0].message] == []


def test_only_administrators_open_and_only_for_reading(site: Site) -> None:  # noqa: F811
    with pytest.raises(NotAllowed) as denied:
        give(site, "/biology", by(site.ben))
    assert denied.value.code == "site_only"
    with pytest.raises(Invalid) as refused:
        give(site, "/biology", by(site.admin), [*SIGHT, "edit_shares"])
    assert_only_sight(refused.value)
    grant = give(site, "/biology", by(site.admin))
    with pytest.raises(Invalid) as refused:
        change_grant(
            policy_slug="grid",
            grant_id=grant.pk,
            tag=tag_of(grant),
            change=GrantChange(verbs=["map_accounts"]),
            at=AT,
            actor=by(site.admin),
        )
    assert_only_sight(refused.value)


def test_pages_and_rest_open_and_show_it(site: Site) -> None:  # noqa: F811
    caller = Caller(user=site.admin)
    answer = caller.post(
        "policies/grid/grants",
        {"people": "*", "entry": "/biology", "role": "viewer", "verbs": SIGHT, "reason": "open"},
    )
    assert answer.status_code == 201, answer.content
    page = caller.client.get(f"/policy/grid/access/?entry=/biology&person={site.nobody.username}")
    assert page.status_code == 200
    grant = Grant.objects.get(people=EVERYBODY)
    assert name_of(grant) in page.content.decode()
