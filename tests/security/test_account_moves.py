"""What a delegate writes takes no account from others: each way that was tried from outside, and what is left of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.errors import NotAllowed
from apps.mapping.changes import AddRule, Assign, RemoveRule, ReplaceRules, make_change, preview_change
from apps.mapping.membership_plan import apply_membership_rules
from apps.mapping.permissions import rights_in
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.mapping.selectors import get_mapping_page
from apps.pages.mapping.api.serializers import plan_json
from apps.policies.changesets.checks import Check, list_checks
from apps.policies.changesets.review import review_of
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_operations
from apps.policies.publishing.revert import restore_revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, propose_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import MembershipRule
from tests.instants import AT
from tests.pages.page import read, text_of
from tests.security.delegated_world import SLUG, Outside, State, add_account, make_world

EVERYBODY = {"op": "set_members", "entry": "/climate", "members": [{"group": "*"}]}
LATER = AT + timedelta(hours=1)


@pytest.fixture
def people(db: None) -> dict[str, Actor]:
    return make_world()


def publish(actor: Actor, *operations: dict[str, Any], at: Any = AT) -> Revision:
    return publish_operations(policy_slug=SLUG, operations=operations, reason="r", at=at, actor=actor)


def tops() -> dict[str, str]:
    state = State.now()
    return {key.user_name: state.top(key) for key in state.places}


def uid(path: str) -> UUID:
    tree = load_tree(Policy.objects.get(slug=SLUG))
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def members_of(path: str) -> tuple[MembershipRule, ...]:
    tree = load_tree(Policy.objects.get(slug=SLUG))
    return tree.members.get(tree.index_of_uid(uid(path)) or 0, ())


def check_of(change_set: ChangeSet, actor: Actor) -> Check:
    review = review_of(change_set, at=AT)
    sees = rights_in(SLUG, at=AT, actor=actor).sees.mask
    return next(one for one in list_checks(review, sees=sees, actor=actor) if one.code == "accounts")


def test_a_rule_of_a_delegate_for_all_users_maps_only_free_accounts(people: dict[str, Actor]) -> None:
    before, cleo = tops(), people["cleo"]
    outside = Outside.of(State.now(), cleo)
    publish(cleo, EVERYBODY)
    apply_membership_rules(at=AT)
    after = State.now()
    outside.require_unchanged(after)
    assert {user for user, top in tops().items() if top != before[user]} == {"guest", "wanda"}
    (rule,) = members_of("/climate")
    assert (rule.reach, rule.written_at) == (str(uid("/climate")), AT.isoformat())


def test_a_rule_of_an_administrator_for_all_users_maps_all_accounts(people: dict[str, Actor]) -> None:
    publish(people["admin"], {**EVERYBODY, "entry": "/physics"})
    assert members_of("/physics")[0].reach == "*"
    assert set(tops().values()) == {"physics", "biology"}, "the administrator's rule for bio* was there before"


def test_a_rule_that_moves_accounts_is_published_by_a_manager_above_both_entries(
    people: dict[str, Actor],
) -> None:
    cleo, admin = people["cleo"], people["admin"]
    for n in range(5):
        add_account(f"more{n}", "physics")
    made = make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=[EVERYBODY], reason="r"), at=AT, actor=cleo)
    check = check_of(made, cleo)
    assert (check.state, "10 accounts" in check.text) == ("warn", True), check
    made = propose_change_set(id=made.pk, version=made.version, at=AT, actor=cleo)
    assert "would move" in check_of(made, admin).text
    publish_change_set(id=made.pk, version=made.version, at=AT, actor=admin)
    assert set(tops().values()) == {"climate", "biology"}


def test_small_numbers_of_accounts_of_others_are_not_disclosed(people: dict[str, Actor]) -> None:
    rule = {**EVERYBODY, "members": [{"group": "bio-lab"}]}
    made = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[rule], reason="r"), at=AT, actor=people["cleo"]
    )
    nobody = {**EVERYBODY, "members": [{"group": "no-such"}]}
    other = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[nobody], reason="r"), at=AT, actor=people["cleo"]
    )
    assert check_of(made, people["cleo"]) == check_of(other, people["cleo"])


def test_new_accounts_follow_rules_of_others(people: dict[str, Actor]) -> None:
    publish(people["cleo"], EVERYBODY)
    add_account("newcomer", "physics")
    add_account("stray", "nowhere")
    assert (tops()["newcomer"], tops()["stray"]) == ("physics", "climate")


def test_removing_a_rule_elsewhere_maps_no_accounts_without_a_manager(
    people: dict[str, Actor],
) -> None:
    ben, pia = people["ben"], people["pia"]
    publish(pia, {**EVERYBODY, "entry": "/physics/seasonal"})
    with pytest.raises(NotAllowed) as refused:
        publish(ben, {"op": "set_members", "entry": "/biology", "members": []}, at=LATER)
    assert refused.value.code == "moves_accounts"
    assert tops()["bioc"] == "biology"
    publish(people["admin"], {"op": "set_members", "entry": "/biology", "members": []}, at=LATER)
    assert tops()["bioc"] == "physics", "free now, and the administrator decides about both ends"


def test_the_first_rule_of_two_delegates_keeps_its_accounts(people: dict[str, Actor]) -> None:
    publish(people["pia"], {**EVERYBODY, "entry": "/physics/seasonal"})
    assert tops()["guest"] == "physics"
    publish(people["cleo"], EVERYBODY, at=LATER)
    rule = Rule("group", uid("/climate"), group_pattern="visitors")
    make_change(policy_slug=SLUG, edit=AddRule(rule), reason="r", version=None, at=LATER, actor=people["cleo"])
    assert tops()["guest"] == "physics"


def test_a_rule_cannot_exceed_the_reach_or_time_of_its_author(people: dict[str, Actor]) -> None:
    publish(people["pia"], {**EVERYBODY, "entry": "/physics/seasonal"})
    claimed = {"group": "*", "reach": "*", "written_at": "2020-01-01T00:00:00+00:00"}
    publish(people["cleo"], {**EVERYBODY, "members": [claimed]}, at=LATER)
    (rule,) = members_of("/climate")
    assert (rule.reach, rule.written_at) == (str(uid("/climate")), LATER.isoformat())
    assert tops()["alice"] == tops()["guest"] == "physics"


def test_a_restored_entry_has_rules_within_the_rights_of_its_restorer(people: dict[str, Actor]) -> None:
    cleo, admin = people["cleo"], people["admin"]
    publish(admin, {"op": "add", "parent": "/climate", "name": "all"})
    entry = str(uid("/climate/all"))
    publish(admin, {"op": "set_members", "entry": entry, "members": [{"group": "*"}]})
    publish(admin, {"op": "archive", "entry": entry})
    publish(cleo, {"op": "restore", "entry": entry}, at=LATER)
    assert members_of("/climate/all")[0].reach == str(uid("/climate"))
    assert tops()["alice"] == "physics"


def test_a_restore_by_an_administrator_keeps_the_reach_of_rules(people: dict[str, Actor]) -> None:
    cleo, admin = people["cleo"], people["admin"]
    number = publish(cleo, EVERYBODY).number
    publish(admin, {**EVERYBODY, "members": []}, at=LATER)
    made = restore_revision(policy_slug=SLUG, number=number, reason="r", at=LATER, actor=admin)
    publish_change_set(id=made.pk, version=made.version, at=LATER, actor=admin)
    assert members_of("/climate")[0].reach == str(uid("/climate"))
    assert tops()["alice"] == "physics"


def test_archiving_an_entry_moves_its_accounts_to_no_one(people: dict[str, Actor]) -> None:
    pia, admin = people["pia"], people["admin"]
    stored = load_rules(Policy.objects.get(slug=SLUG))
    exact = Rule("exact", uid("/physics/seasonal/summer"), user_pattern="carol")
    make_change(policy_slug=SLUG, edit=ReplaceRules([exact, *stored]), reason="r", version=None, at=AT, actor=admin)
    assert tops()["carol"] == "physics"
    with pytest.raises(NotAllowed) as refused:
        publish(pia, {"op": "archive", "entry": "/physics/seasonal/summer"})
    assert refused.value.code == "moves_accounts"


def test_a_scheduled_archiving_is_authorised_when_it_is_set(people: dict[str, Actor]) -> None:
    admin = people["admin"]
    stored = load_rules(Policy.objects.get(slug=SLUG))
    exact = Rule("exact", uid("/physics/seasonal/summer"), user_pattern="carol")
    make_change(policy_slug=SLUG, edit=ReplaceRules([exact, *stored]), reason="r", version=None, at=AT, actor=admin)
    dates = {"ends_on": "2026-11-30", "at_end": "archive"}
    with pytest.raises(NotAllowed) as refused:
        publish(people["pia"], {"op": "set_dates", "entry": "/physics/seasonal/summer", "dates": dates})
    assert refused.value.code == "moves_accounts"


def test_a_moved_rule_reaches_only_its_entry(people: dict[str, Actor]) -> None:
    admin = people["admin"]
    publish(admin, {"op": "add", "parent": "/climate", "name": "all"})
    publish(people["cleo"], {"op": "set_members", "entry": "/climate/all", "members": [{"group": "*"}]})
    assert tops()["cyd"] == "climate"
    publish(admin, {"op": "move", "entry": "/climate/all", "parent": "/physics"})
    assert tops()["cyd"] == "climate", "climate is no part of what the rule reaches any more"


def test_a_preview_lists_free_and_own_accounts_without_small_counts(people: dict[str, Actor]) -> None:
    cleo = people["cleo"]
    rule = Rule("glob", uid("/climate"), user_pattern="*")
    stored = load_rules(Policy.objects.get(slug=SLUG))
    for edit in (AddRule(rule), ReplaceRules([rule]), ReplaceRules([rule, *stored])):
        plan = plan_json(preview_change(policy_slug=SLUG, edit=edit, at=AT, actor=cleo))
        assert {one["account"]["user"] for one in plan["moves"]} <= {"guest", "wanda", "cyd"}, plan
        assert plan["accounts"] == len(plan["moves"])
        assert plan["accounts_of_others"] in (None, 0, 6), plan
    with pytest.raises(NotAllowed):
        make_change(policy_slug=SLUG, edit=ReplaceRules([rule]), reason="r", version=None, at=AT, actor=cleo)
    removed = preview_change(policy_slug=SLUG, edit=RemoveRule(0), at=AT, actor=people["admin"])
    assert plan_json(removed)["accounts"] == len(removed.moves), "an administrator reads all"


def test_an_account_counted_by_a_default_rule_below_its_entry_is_not_free(people: dict[str, Actor]) -> None:
    rules = [Rule("default", uid("/"), suffix="/{group}/{user}")]
    make_change(policy_slug=SLUG, edit=ReplaceRules(rules), reason="r", version=None, at=AT, actor=people["admin"])
    publish(people["cleo"], EVERYBODY)
    assert tops()["alice"] == "physics"


def test_all_users_keep_their_accounts(people: dict[str, Actor]) -> None:
    """The world of these tests: only the visitors' accounts are unmapped."""
    assert {user for user, top in tops().items() if not top} == {"guest", "wanda"}
    assert AccountKey("a", "guest", "visitors", "", "", "") in State.now().places
    assert Account.objects.count() == 8


def test_the_accounts_page_sums_only_visible_accounts(people: dict[str, Actor]) -> None:
    for user, path in (("alice", "/physics/bob"), ("cyd", "/climate")):
        account = Account.objects.get(user_name=user)
        edit = Assign({account.pk: uid(path)})
        make_change(policy_slug=SLUG, edit=edit, reason="r", version=None, at=AT, actor=people["admin"])
    page = get_mapping_page(policy_slug=SLUG, at=AT, actor=people["cleo"])
    assert (page.n_attached, page.n_by_members, page.total_core_s) == (1, 0, None)
    whole = get_mapping_page(policy_slug=SLUG, at=AT, actor=people["admin"])
    assert (whole.n_attached, whole.n_by_members, whole.total_core_s) == (2, 2, 0.0)


def test_each_rule_is_shown_with_its_reach_on_pages_and_by_rest(
    people: dict[str, Actor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delegate's rules take accounts of their part alone; those of administrators take all."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", LATER.isoformat())
    publish(people["cleo"], EVERYBODY)
    publish(people["admin"], {**EVERYBODY, "entry": "/physics"})
    guests = Rule(kind="glob", target_uid=uid("/climate"), user_pattern="guest*", suffix="/{user}")
    make_change(policy_slug=SLUG, edit=AddRule(guests, None), reason="r", version=None, at=AT, actor=people["cleo"])
    client = Client()
    assert people["admin"].user is not None
    client.force_login(people["admin"].user, backend="django.contrib.auth.backends.ModelBackend")
    climate = {"reach": str(uid("/climate")), "reach_path": "/climate"}
    for path, expected in (("/climate", climate), ("/physics", {"reach": None, "reach_path": None})):
        answer = client.get(f"/api/v1/policies/{SLUG}/entries/{uid(path)}").json()
        assert [{name: rule[name] for name in expected} for rule in answer["member_rules"]] == [expected]
        page = read(client.get(f"/policy/{SLUG}/members/{uid(path)}/"))
        assert (expected["reach_path"] or "whole policy") in page.text('[data-testid="reach"]')
    rules = client.get(f"/api/v1/policies/{SLUG}/mappings/rules").json()["results"]
    assert [(rule["group"], rule["reach_path"]) for rule in rules] == [("*", None), ("", "/climate")]
    (shown,) = read(client.get(f"/policy/{SLUG}/mappings/")).items("reach")
    assert "/climate" in text_of(shown), "only what isn't the whole policy is named in the list of the mapping"
