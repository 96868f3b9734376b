"""Whose account is it, and where does it count: attached by hand, by those who may at both ends."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound
from apps.mapping import claims
from apps.mapping.attachments import attach_account, detach_account, list_attachments
from apps.mapping.models import Attachment, Claim
from apps.mapping.permissions import rights_in
from apps.policies.tree.terms import MembershipRule
from apps.priorities.selectors.members import get_members_page, preview_members
from apps.priorities.serving import store
from tests.grants import make_grant
from tests.mapping.test_membership import set_members, uid_of
from tests.priority_site import AS_OF, Site


@pytest.fixture
def lead(site: Site) -> Actor:
    """Leads physics."""
    user = User.objects.create_user("lena")
    make_grant(user, uid_of(site, "/physics"), "lead", policy=site.policy, at=AS_OF - timedelta(days=9), reason="test")
    return Actor(user=user, via="page")


def key(site: Site, user: str, group: str = "") -> AccountKey:
    return AccountKey(site.source.namespace, user, group)


def attach(site: Site, path: str, account: AccountKey, actor: Actor, reason: str = "She is ours.") -> Attachment:
    return attach_account(
        policy_slug=site.slug, entry_uid=UUID(uid_of(site, path)), account=account, reason=reason, at=AS_OF, actor=actor
    )


def entry_of(site: Site, name: str) -> str | None:
    site.recompute()
    found = store.newest(site.slug).lookup([name])
    entry: str | None = found[0]["entry"]
    return entry


def test_a_lead_attaches_a_free_account_to_an_entry_of_the_group(site: Site, lead: Actor) -> None:
    site.job("guest7", "visitors", 5)
    assert entry_of(site, "guest7") is None
    made = attach(site, "/physics/bob", key(site, "guest7", "visitors"), lead)
    assert entry_of(site, "guest7") == "/physics/bob"
    event = AuditEvent.objects.get(verb="account.attached")
    assert (event.actor_name, event.reason, str(event.entry_uid)) == ("lena", "She is ours.", str(made.entry_uid))
    detach_account(policy_slug=site.slug, attachment_id=made.pk, reason="left", at=AS_OF, actor=lead)
    assert entry_of(site, "guest7") is None
    assert AuditEvent.objects.filter(verb="account.detached").exists()


def test_a_look_up_finds_an_attached_account_at_its_entry_instead_of_by_rules(site: Site) -> None:
    attach(site, "/biology/dan", key(site, "alice", "physics"), COMMAND)
    assert entry_of(site, "alice") == "/biology/dan"


def test_accounts_of_others_stay_and_are_answered_like_unknown_ones(site: Site, lead: Actor) -> None:
    texts = set()
    for name, group in (("carol", "biology"), ("unseen", "biology")):
        with pytest.raises(Invalid) as refusal:
            attach(site, "/physics/bob", key(site, name, group), lead)
        texts.add(str(refusal.value).replace(name, "…"))
    assert len(texts) == 1
    assert not Attachment.objects.exists()


def test_an_account_can_move_within_the_own_group(site: Site, lead: Actor) -> None:
    attach(site, "/physics/bob", key(site, "alice", "physics"), lead)
    assert entry_of(site, "alice") == "/physics/bob"


def test_attaching_needs_the_right_and_visibility(site: Site, lead: Actor) -> None:
    site.job("guest7", "visitors", 5)
    with pytest.raises(NotAllowed):
        attach(site, "/biology/dan", key(site, "guest7", "visitors"), lead)
    site.policy.visibility = "path"
    site.policy.save()
    with pytest.raises(NotFound):
        attach(site, "/biology/dan", key(site, "guest7", "visitors"), lead)
    with pytest.raises(Invalid):
        attach(site, "/", key(site, "guest7", "visitors"), COMMAND)
    with pytest.raises(Invalid, match="reason"):
        attach(site, "/physics/bob", key(site, "guest7", "visitors"), lead, reason=" ")


def test_attachments_are_listed_with_the_right_to_see_names(site: Site, lead: Actor) -> None:
    attach(site, "/biology/dan", key(site, "carol", "biology"), COMMAND)
    attach(site, "/physics/bob", key(site, "alice", "physics"), COMMAND)
    stranger = Actor(user=User.objects.create_user("sam"), via="page")
    names = {
        actor.name: [one.account.user_name for one in list_attachments(rights_in(site.slug, at=AS_OF, actor=actor))]
        for actor in (lead, stranger, COMMAND)
    }
    assert names == {"lena": ["alice"], "sam": [], "system": ["carol", "alice"]}


def test_sign_in_links_accounts_of_sources_with_login_names(site: Site) -> None:
    alice = User.objects.create_user("alice")
    Client().force_login(alice)
    assert not Account.objects.filter(person=alice).exists(), "the source doesn't say so"
    type(site.source).objects.update(names_people=True)
    Client().force_login(alice)
    assert list(Account.objects.filter(person=alice).values_list("user_name", flat=True)) == ["alice"]
    assert AuditEvent.objects.get(verb="account.owned").details["person"] == "alice"


def test_a_claim_waits_for_a_manager_and_answers_alike_for_unknown_names(site: Site, lead: Actor) -> None:
    ann = Actor(user=User.objects.create_user("ann"), via="page")
    for name in ("alice", "never-seen"):
        assert not claims.claim_account(namespace="c1", user_name=name, at=AS_OF, actor=ann)
    rights = rights_in(site.slug, at=AS_OF, actor=lead)
    (open_claim,) = claims.list_claims(rights, rights.tree.subtree_mask(0))
    assert [account.user_name for account in open_claim.accounts] == ["alice"]
    claims.decide_claim(rights, claim_id=open_claim.claim.pk, confirm=True, at=AS_OF, actor=lead)
    assert Account.objects.get(user_name="alice").person == ann.user
    assert claims.claim_account(namespace="c1", user_name="alice", at=AS_OF, actor=ann), "settled"
    assert [claim.user_name for claim in claims.list_my_accounts(actor=ann).claims] == ["never-seen"]


def test_a_rejected_claim_is_audited_and_final(site: Site, lead: Actor) -> None:
    ann = Actor(user=User.objects.create_user("ann"), via="page")
    claims.claim_account(namespace="c1", user_name="carol", at=AS_OF, actor=ann)
    claim = Claim.objects.get()
    with pytest.raises(NotFound):
        claims.decide_claim(
            rights_in(site.slug, at=AS_OF, actor=lead), claim_id=claim.pk, confirm=True, at=AS_OF, actor=lead
        )
    claims.decide_claim(
        rights_in(site.slug, at=AS_OF, actor=COMMAND), claim_id=claim.pk, confirm=False, at=AS_OF, actor=COMMAND
    )
    assert not Claim.objects.exists()
    assert AuditEvent.objects.get(verb="account.claim_refused").details == {"person": "ann"}
    assert Account.objects.get(user_name="carol").person is None


def test_users_cannot_confirm_own_claims_or_take_linked_accounts(site: Site, lead: Actor) -> None:
    claims.claim_account(namespace="c1", user_name="alice", at=AS_OF, actor=lead)
    rights = rights_in(site.slug, at=AS_OF, actor=lead)
    with pytest.raises(NotAllowed):
        claims.decide_claim(rights, claim_id=Claim.objects.get().pk, confirm=True, at=AS_OF, actor=lead)
    Account.objects.filter(user_name="alice").update(person=User.objects.create_user("alice"))
    assert claims.list_claims(rights, rights.tree.subtree_mask(0)) == []


def test_a_claim_names_an_account_as_its_cluster_writes_it(site: Site) -> None:
    actor = Actor(User.objects.create_user("claimant"), "page")
    for namespace, user_name, where in (
        ("", "alice", "namespace"),
        ("c1", " ", "user_name"),
        ("c1", "a\0b", "user_name"),
    ):
        with pytest.raises(Invalid) as refused:
            claims.claim_account(namespace=namespace, user_name=user_name, at=AS_OF, actor=actor)
        assert [field.where for field in refused.value.fields] == [where]


def test_claims_are_limited_and_can_be_withdrawn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MOST_CLAIMS", 2)
    ann = Actor(user=User.objects.create_user("ann"), via="page")
    for name in ("a", "b"):
        claims.claim_account(namespace="c1", user_name=name, at=AS_OF, actor=ann)
    with pytest.raises(Conflict):
        claims.claim_account(namespace="c1", user_name="c", at=AS_OF, actor=ann)
    first = Claim.objects.order_by("pk")[0]
    with pytest.raises(NotFound):
        claims.cancel_claim(claim_id=first.pk, at=AS_OF, actor=Actor(user=User.objects.create_user("x"), via="page"))
    claims.cancel_claim(claim_id=first.pk, at=AS_OF, actor=ann)
    assert Claim.objects.count() == 1


def test_a_preview_counts_new_members_and_names_visible_ones(site: Site, as_eva: Actor) -> None:
    for user in ("zoe", "yan", "carol"):
        site.job(user, "students" if user != "carol" else "biology", 1, ago_h=3)
    rules = [MembershipRule(group="students"), MembershipRule(group="biolo?y")]
    uid = UUID(uid_of(site, "/physics"))
    found = preview_members(policy_slug=site.slug, entry_uid=uid, members=rules, at=AS_OF, actor=as_eva)
    assert (found.n_joined, found.n_back, found.n_matched, found.n_taken) == (3, 0, 3, 1)
    assert list(found.names) == ["carol", "yan", "zoe"]
    manager = User.objects.create_user("max")
    make_grant(manager, uid, policy=site.policy, at=AS_OF - timedelta(days=9), reason="test")
    found = preview_members(
        policy_slug=site.slug, entry_uid=uid, members=rules, at=AS_OF, actor=Actor(user=manager, via="page")
    )
    assert (found.n_joined, found.n_taken, list(found.names)) == (2, 0, []), "carol counts at biology, and stays"


def test_the_page_lists_recent_changes_by_rules(site: Site, as_eva: Actor) -> None:
    from apps.mapping.membership_plan import apply_membership_rules

    set_members(site, "/physics", {"group": "students", "archive_after_days": 30})
    site.job("zoe", "students", 3)
    apply_membership_rules(at=AS_OF)
    apply_membership_rules(at=AS_OF + timedelta(days=31))
    site.recompute()
    page = get_members_page(policy_slug=site.slug, uid=UUID(uid_of(site, "/physics")), actor=as_eva)
    assert [(event.name, event.what, event.is_here) for event in page.lately] == [
        ("zoe", "idle", False),
        ("zoe", "joined", False),
    ]
    assert [(line.entry.name, [one.key.user_name for one in line.accounts]) for line in page.members] == [
        ("alice", ["alice"]),
        ("bob", ["bob"]),
    ]
    assert [(one.key.user_name, one.person) for one in page.waiting] == [("zoe", "")]
