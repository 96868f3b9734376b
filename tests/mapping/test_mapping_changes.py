"""Changes of the mapping: previewed, stored as versions, undone; and the rights of mappers of a part."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.mapping.attachments import attach_account, detach_account
from apps.mapping.changes import (
    AddRule,
    Assign,
    ChangeRule,
    Edit,
    MoveRule,
    Plan,
    RemoveRule,
    ReplaceRules,
    Restore,
    make_change,
    preview_change,
)
from apps.mapping.models import Attachment, MappingRule, MappingVersion
from apps.mapping.moves import ProposedMapping, find_moves, refusal_of
from apps.mapping.permissions import rights_in
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import get_mapping_page
from apps.mapping.versions import MappingState, current_mapping, get_version, mapping_at_version, version_at, version_of
from apps.priorities.recompute.staleness import is_stale
from apps.priorities.serving import store
from apps.runs.models import Run
from tests.grants import make_grant
from tests.mapping.test_membership import uid_of
from tests.priority_site import AS_OF, Site


def actor_at(site: Site, name: str, path: str, role: str = "lead", verbs: list[str] | None = None) -> Actor:
    user = User.objects.create_user(name)
    make_grant(
        user,
        uid_of(site, path),
        role,
        policy=site.policy,
        verbs=verbs,
        at=AS_OF - timedelta(days=9),
        reason="test",
    )
    return Actor(user=user, via="page")


@pytest.fixture
def lena(site: Site) -> Actor:
    """Leads physics."""
    return actor_at(site, "lena", "/physics")


@pytest.fixture
def mona(site: Site) -> Actor:
    """Maps the accounts of the whole policy, and does nothing else."""
    return actor_at(site, "mona", "/", verbs=["map_accounts"])


def change(
    site: Site, edit: Edit, actor: Actor = COMMAND, *, version: int | None = None, reason: str = "Because."
) -> int:
    return make_change(policy_slug=site.slug, edit=edit, reason=reason, version=version, at=AS_OF, actor=actor)


def preview(site: Site, edit: Edit, actor: Actor = COMMAND) -> Plan:
    return preview_change(policy_slug=site.slug, edit=edit, at=AS_OF, actor=actor)


def moves(site: Site, plan: Plan) -> list[tuple[str, str, str, float]]:
    tree = plan.rights.tree

    def path(entry: int) -> str:
        return tree.path(entry) if entry >= 0 else ""

    return [(one.key.user_name, path(one.before), path(one.after), one.usage.core_s / 3600) for one in plan.moves]


def stated(state: MappingState) -> tuple[list[Rule], dict[int, UUID]]:
    """Without when rules were written."""
    return [rule.stated for rule in state.rules], dict(state.attached)


def account(user: str) -> int:
    return int(Account.objects.get(user_name=user).pk)


def kinds(site: Site) -> list[tuple[str, str]]:
    rows = MappingRule.objects.filter(policy=site.policy).order_by("position")
    return [(row.kind, row.user_pattern or row.group_pattern) for row in rows]


def test_a_rule_is_previewed_and_applies_at_the_next_recompute_without_import(site: Site, mona: Actor) -> None:
    site.job("guest7", "visitors", 5)
    site.recompute()
    rule = site.rule("/physics/bob", kind="exact", user_pattern="guest7", suffix="")
    before = version_of(site.policy)
    plan = preview(site, AddRule(rule), mona)
    assert moves(site, plan) == [("guest7", "", "/physics/bob", 5.0)]
    assert (plan.core_s, plan.refusal, plan.version) == (5 * 3600, "", before)
    assert version_of(site.policy) == before, "tried, not made"
    number = change(site, AddRule(rule), mona, version=before, reason="He is a guest of Bob's.")
    assert number == before + 1
    assert kinds(site) == [("exact", "guest7"), ("glob", "")], "exactly named accounts are asked first"
    assert is_stale(site.policy, as_of=AS_OF)
    site.recompute()
    assert store.newest(site.slug).lookup(["guest7"])[0]["entry"] == "/physics/bob"
    kept = get_version(site.policy, number)
    assert (kept.author_name, kept.reason, len(kept.rules or ())) == ("mona", "He is a guest of Bob's.", 2)
    event = AuditEvent.objects.filter(verb="mapping.changed").latest("id")
    assert (event.reason, event.details["version"], event.details["n_moved"]) == (kept.reason, number, 1)
    assert Run.objects.filter(kind="recompute", subject=f"policy:{site.slug}").exists()


def test_rules_are_changed_moved_and_removed_by_position(site: Site) -> None:
    one = site.rule("/physics", user_pattern="a*", suffix="")
    two = site.rule("/biology", user_pattern="b*", suffix="")
    rest = site.rule("/biology", kind="default", suffix="")
    change(site, ReplaceRules([rest, one, two]))
    assert kinds(site) == [("glob", "a*"), ("glob", "b*"), ("default", "")]
    change(site, MoveRule(1, 0))
    assert kinds(site)[:2] == [("glob", "b*"), ("glob", "a*")]
    with pytest.raises(Invalid) as refused:
        change(site, MoveRule(2, 0))
    assert refused.value.code == "nothing_to_change", "defaults stay last"
    change(site, ChangeRule(1, site.rule("/biology", user_pattern="c*", suffix="")))
    assert kinds(site)[:2] == [("glob", "b*"), ("glob", "c*")]
    change(site, ChangeRule(1, site.rule("/biology", user_pattern="d*", suffix=""), to=0))
    assert kinds(site)[:2] == [("glob", "d*"), ("glob", "b*")]
    change(site, RemoveRule(0))
    assert kinds(site) == [("glob", "b*"), ("default", "")]
    with pytest.raises(NotFound):
        change(site, RemoveRule(9))


def test_the_first_and_the_last_rule_of_each_kind_of_order_are_marked(site: Site) -> None:
    """A page offers no step beyond them: exact rules, the others and default rules keep their order."""
    one, two = (site.rule("/physics", user_pattern=pattern, suffix="") for pattern in ("a*", "b*"))
    rest = site.rule("/biology", kind="default", suffix="")

    def edges() -> list[tuple[bool, bool]]:
        rows = get_mapping_page(policy_slug=site.slug, at=AS_OF, actor=COMMAND).rules
        return [(row.is_first, row.is_last) for row in rows]

    change(site, ReplaceRules([one, two]))
    assert edges() == [(True, False), (False, True)]
    change(site, ReplaceRules([one, two, rest]))
    assert edges() == [(True, False), (False, True), (True, True)]


def test_a_source_selects_its_namespace(site: Site) -> None:
    site.job("guest7", "visitors", 5)
    rule = site.rule("/biology", user_pattern="guest*", suffix="", source=site.source.slug)
    plan = preview(site, AddRule(rule))
    assert moves(site, plan) == [("guest7", "", "/biology", 5.0)]
    with pytest.raises(Invalid) as refused:
        preview(site, AddRule(site.rule("/biology", user_pattern="guest*", suffix="", source="no-such")))
    assert refused.value.fields[0].where == "rules[1].source"


def test_a_change_needs_a_reason_an_effect_and_the_current_version(site: Site) -> None:
    rule = site.rule("/physics", user_pattern="x*", suffix="")
    with pytest.raises(Invalid) as missing:
        change(site, AddRule(rule), reason=" ")
    assert missing.value.code == "reason_missing"
    assert str(missing.value) == "Enter a reason."
    seen = version_of(site.policy)
    change(site, AddRule(rule), version=seen)
    with pytest.raises(Stale):
        change(site, RemoveRule(0), version=seen)
    with pytest.raises(Invalid) as nothing:
        change(site, ReplaceRules(current_mapping(site.policy).rules))
    assert nothing.value.code == "nothing_to_change"
    with pytest.raises(Invalid) as bad:
        change(site, AddRule(Rule("glob", UUID(int=5))))
    assert bad.value.code == "bad_rules"


def test_several_accounts_are_mapped_in_one_version(site: Site, mona: Actor) -> None:
    for name in ("guest1", "guest2"):
        site.job(name, "visitors", 2)
    before = version_of(site.policy)
    bob, dan = UUID(uid_of(site, "/physics/bob")), UUID(uid_of(site, "/biology/dan"))
    edit = Assign({account("guest1"): bob, account("guest2"): dan})
    assert sorted(moves(site, preview(site, edit, mona))) == [
        ("guest1", "", "/physics/bob", 2.0),
        ("guest2", "", "/biology/dan", 2.0),
    ]
    assert change(site, edit, mona, version=before) == before + 1
    assert {row.entry_uid for row in Attachment.objects.all()} == {bob, dan}
    site.recompute()
    found = store.newest(site.slug).lookup(["guest1", "guest2"])
    assert [one["entry"] for one in found] == ["/physics/bob", "/biology/dan"]
    event = AuditEvent.objects.get(verb="mapping.assigned")
    assert event.entry_uid is None
    assert len(event.details["attached"]) == 2
    with pytest.raises(Invalid):
        change(site, Assign({account("guest1"): UUID(uid_of(site, "/"))}))
    with pytest.raises(Invalid):
        change(site, Assign({987654: bob}))


def test_past_mappings_are_stored_and_can_be_restored(site: Site) -> None:
    site.job("guest7", "visitors", 5)
    first, rules = version_of(site.policy), current_mapping(site.policy).rules
    bob, dan = UUID(uid_of(site, "/physics/bob")), UUID(uid_of(site, "/biology/dan"))
    guest = account("guest7")
    second = change(site, Assign({account("guest7"): bob}))
    third = change(site, AddRule(site.rule("/physics", user_pattern="x*", suffix="")))
    fourth = change(site, Assign({account("guest7"): dan}))
    row = Attachment.objects.get()
    detach_account(policy_slug=site.slug, attachment_id=row.pk, reason="gone", at=AS_OF, actor=COMMAND)
    assert [dict(mapping_at_version(site.policy, n).attached) for n in (first, second, third, fourth, fourth + 1)] == [
        {},
        {guest: bob},
        {guest: bob},
        {guest: dan},
        {},
    ]
    assert [len(mapping_at_version(site.policy, n).rules) for n in (first, second, third, fourth)] == [1, 1, 2, 2]
    number = change(site, Restore(second), reason="As in spring.")
    assert current_mapping(site.policy).rules == rules
    assert dict(current_mapping(site.policy).attached) == {guest: bob}
    assert mapping_at_version(site.policy, fourth).attached == {guest: dan}, "the past stays what it was"
    assert version_of(site.policy) == number
    with pytest.raises(Invalid) as nothing:
        change(site, Restore(second))
    assert nothing.value.code == "nothing_to_change"
    with pytest.raises(NotFound):
        change(site, Restore(999))


def test_the_version_of_an_instant_is_the_last_one_before_it(site: Site) -> None:
    MappingVersion.objects.all().delete()
    for days in (3, 1):
        make_change(
            policy_slug=site.slug,
            edit=AddRule(site.rule("/physics", user_pattern=f"x{days}*", suffix="")),
            reason="r",
            version=None,
            at=AS_OF - timedelta(days=days),
            actor=COMMAND,
        )
    numbers = [row.number for row in MappingVersion.objects.order_by("number")]
    assert version_at(site.policy, AS_OF - timedelta(days=2)).number == numbers[0]
    assert version_at(site.policy, AS_OF).number == numbers[1]
    with pytest.raises(NotFound):
        version_at(site.policy, AS_OF - timedelta(days=4))


def test_a_version_with_archived_entries_is_not_restored(site: Site) -> None:
    change(site, AddRule(site.rule("/physics/bob", user_pattern="x*", suffix="")))
    number = change(site, RemoveRule(1))
    site.publish([{"name": "physics", "kind": "group", "shares": 1, "children": []}])
    with pytest.raises(Conflict) as refused:
        change(site, Restore(number - 1))
    assert refused.value.code == "entry_gone"


def refused(site: Site, edit: Edit, actor: Actor) -> str:
    plan = preview(site, edit, actor)
    assert plan.refusal
    with pytest.raises(NotAllowed) as error:
        change(site, edit, actor)
    assert error.value.message == plan.refusal
    assert AuditEvent.objects.filter(outcome="refused", actor_name=actor.name).exists()
    return plan.refusal_key


def test_a_lead_moves_no_accounts_into_or_out_of_the_group(site: Site, lena: Actor) -> None:
    site.job("guest7", "visitors", 5)
    pulls = site.rule("/physics/bob", kind="glob", user_pattern="carol", suffix="")
    change(
        site,
        ReplaceRules(
            [
                site.rule("/physics", group_pattern="physics", suffix="/{user}"),
                site.rule("/biology", group_pattern="biology", suffix="/{user}"),
            ]
        ),
    )
    assert refused(site, AddRule(pulls, to=0), lena) == "above_others"
    assert not preview(site, AddRule(site.rule("/physics/bob", user_pattern="guest*", suffix="")), lena).refusal
    away = site.rule("/biology", group_pattern="physics", suffix="")
    assert refused(site, AddRule(away), lena) == "rules_of_others"
    assert refused(site, RemoveRule(0), lena) == "drops"


def test_rules_of_a_lead_come_after_those_of_others(site: Site, lena: Actor) -> None:
    """No user of group chemistry was seen yet; new ones are biology's by its rule."""
    change(site, ReplaceRules([site.rule("/biology", group_pattern="chem*", suffix="")]))
    future = site.rule("/physics", group_pattern="chemistry", suffix="")
    assert not preview(site, AddRule(future), COMMAND).refusal
    assert preview(site, AddRule(future, to=0), COMMAND).moves == []
    assert refused(site, AddRule(future, to=0), lena) == "above_others"
    change(site, AddRule(future), lena)
    assert kinds(site) == [("glob", "chem*"), ("glob", "chemistry")]
    assert refused(site, MoveRule(1, 0), lena)
    change(site, RemoveRule(1), lena)
    for kind in ("exact", "default"):
        rule = site.rule("/physics", kind=kind, user_pattern="zoe" if kind == "exact" else "", suffix="")
        assert refused(site, AddRule(rule), lena) == "exact_or_default"
    each = site.rule("/physics", kind="each", group_pattern="newcomers", suffix="")
    assert refused(site, AddRule(each), lena) == "makes_children"
    assert not preview(site, AddRule(each), actor_at(site, "max", "/physics", "manager")).refusal


def test_a_lead_cannot_move_usage_away_by_a_rule_change(site: Site, lena: Actor) -> None:
    change(site, ReplaceRules([site.rule("/physics", group_pattern="physics", suffix="/{user}")]))
    narrower = site.rule("/physics", group_pattern="physics", user_pattern="bob", suffix="/{user}")
    assert refused(site, ChangeRule(0, narrower), lena) == "drops"
    inside = site.rule("/physics/bob", group_pattern="physics", suffix="")
    assert [move[:3] for move in moves(site, preview(site, ChangeRule(0, inside), lena))] == [
        ("alice", "/physics/alice", "/physics/bob")
    ]
    change(site, ChangeRule(0, inside), lena)


def test_a_lead_maps_free_and_own_accounts_within_the_group(site: Site, lena: Actor) -> None:
    site.job("guest7", "visitors", 5)
    bob = UUID(uid_of(site, "/physics/bob"))
    change(site, Assign({account("guest7"): bob, account("alice"): bob}), lena)
    with pytest.raises(Invalid) as taken:
        change(site, Assign({account("carol"): bob}), lena)
    with pytest.raises(Invalid) as unknown:
        change(site, Assign({account("carol") + 99: bob}), lena)
    assert taken.value.message == unknown.value.message
    with pytest.raises(NotAllowed):
        change(site, Assign({account("guest7"): UUID(uid_of(site, "/biology/dan"))}), lena)
    with pytest.raises(NotFound):
        change(site, Assign({account("guest7"): UUID(int=7)}), lena)


def test_accounts_attached_by_others_cannot_be_detached_by_a_lead(site: Site, lena: Actor) -> None:
    site.job("guest7", "visitors", 5)
    bob = uid_of(site, "/physics/bob")
    guest = AccountKey("c1", "guest7", "visitors")

    def attach(actor: Actor) -> int:
        row = attach_account(
            policy_slug=site.slug, entry_uid=UUID(bob), account=guest, reason="x", at=AS_OF, actor=actor
        )
        return int(row.pk)

    def detach(number: int) -> None:
        detach_account(policy_slug=site.slug, attachment_id=number, reason="x", at=AS_OF, actor=lena)

    number = attach(COMMAND)
    with pytest.raises(NotAllowed):
        detach(number)
    attach(lena)  # repeating it doesn't change its author
    with pytest.raises(NotAllowed):
        detach(number)
    detach_account(policy_slug=site.slug, attachment_id=number, reason="x", at=AS_OF, actor=COMMAND)
    detach(attach(lena))
    carol = AccountKey("c1", "carol", "biology")
    row = attach_account(policy_slug=site.slug, entry_uid=UUID(bob), account=carol, reason="x", at=AS_OF, actor=COMMAND)
    with pytest.raises(NotAllowed) as pushed:
        detach(row.pk)
    assert pushed.value.code == "not_yours"
    assert re.findall(r"\d+", pushed.value.message) == ["1"], (
        "of one account, and it counts at an entry outside your rights"
    )
    rights = rights_in(site.slug, at=AS_OF, actor=lena)
    why = refusal_of(rights, find_moves(rights, ProposedMapping(places={account("carol"): None}), at=AS_OF))
    assert why is not None
    assert (why.key, why.text) == ("pushes", pushed.value.message)


def test_a_lead_restores_only_changes_within_their_rights(site: Site, lena: Actor) -> None:
    site.job("guest7", "visitors", 5)
    before = version_of(site.policy)
    change(site, Assign({account("guest7"): UUID(uid_of(site, "/physics/bob"))}), lena)
    change(site, Assign({account("guest7"): UUID(uid_of(site, "/physics/alice"))}), lena)
    change(site, Restore(before + 1), lena)
    assert dict(current_mapping(site.policy).attached).popitem()[1] == UUID(uid_of(site, "/physics/bob"))
    change(site, AddRule(site.rule("/biology", user_pattern="x*", suffix="")))
    assert refused(site, Restore(before + 1), lena) == "rules_of_others"


def test_without_the_right_to_read_names_nothing_is_disclosed(site: Site) -> None:
    edit = AddRule(site.rule("/physics", user_pattern="x*", suffix=""))
    stranger = Actor(user=User.objects.create_user("nora"), via="page")
    with pytest.raises(NotAllowed):
        preview(site, edit, stranger)
    with pytest.raises(NotAllowed):
        change(site, edit, stranger)
    viewer = actor_at(site, "vera", "/", "viewer")
    with pytest.raises(NotAllowed):
        preview(site, edit, viewer)


def test_rules_of_others_cannot_be_read_by_position(site: Site, lena: Actor) -> None:
    change(site, ReplaceRules([site.rule("/biology", user_pattern="x*", suffix="")]))
    for edit in (RemoveRule(0), MoveRule(0, 1), ChangeRule(0, site.rule("/physics", suffix=""))):
        with pytest.raises(NotFound):
            preview(site, edit, lena)


def test_two_hundred_rules_and_many_accounts_are_previewed_quickly(
    site: Site, django_assert_max_num_queries: Any
) -> None:
    rules = [site.rule("/physics", user_pattern=f"n{n}-*", suffix="") for n in range(200)]
    Account.objects.bulk_create(Account(namespace="c1", user_name=f"n{n}-u", first_seen_at=AS_OF) for n in range(1_000))
    with django_assert_max_num_queries(40):
        plan = preview(site, ReplaceRules(rules))
    assert len([move for move in plan.moves if move.key.user_name.startswith("n")]) == 200
