"""Membership rules add, archive and restore members without a change set by hand."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_ids import account_ids
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.accounts.models import Account, AuditEvent, User
from apps.mapping import membership_plan as membership
from apps.mapping.membership_activity import Activity
from apps.mapping.membership_plan import MembershipPlan, apply_membership_rules
from apps.mapping.rules.resolver import KnownAccounts, Resolver
from apps.mapping.rules.rule import Person, Rule
from apps.mapping.rules.rule_set import in_order, rules_of_tree
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing.direct import publish_automatic
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import WHOLE_POLICY, MembershipRule
from apps.policies.tree.working_tree import columns_of
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from tests.priority_site import AS_OF, Site

DAY = timedelta(days=1)


def paths(site: Site) -> set[str]:
    tree = load_tree(Policy.objects.get(pk=site.policy.pk))
    return {tree.path(i) for i in range(1, len(tree))}


def set_members(site: Site, path: str, *rules: dict[str, Any]) -> Revision:
    return change(site, {"op": "set_members", "entry": path, "members": list(rules)})


def change(site: Site, *operations: dict[str, Any], at: Any = AS_OF) -> Revision:
    made = make_change_set(
        policy_slug=site.slug, new=NewChangeSet(operations=list(operations), reason="test"), at=at, actor=COMMAND
    )
    return publish_change_set(id=made.pk, version=made.version, at=at, actor=COMMAND)


def uid_of(site: Site, path: str) -> str:
    tree = load_tree(Policy.objects.get(pk=site.policy.pk))
    i = tree.index_of_path(path)
    assert i is not None, path
    return str(tree.uuid(i))


def everywhere(*rules: MembershipRule) -> tuple[MembershipRule, ...]:
    """With the reach of the whole policy, as an administrator writes them."""
    return tuple(replace(rule, reach=WHOLE_POLICY) for rule in rules)


def grown(members: dict[str, tuple[MembershipRule, ...]]) -> TreeColumns:
    """root → a → b → c, all groups, with rules for members."""
    names = ["root", "a", "b", "c"]
    nodes = [
        Node(UUID(int=n + 1), UUID(int=n) if n else None, name, members=everywhere(*members.get(name, ())))
        for n, name in enumerate(names)
    ]
    return columns_of(nodes)


def place(tree: TreeColumns, stored: list[Rule], key: AccountKey, known: KnownAccounts | None = None) -> str:
    rules = in_order(stored, rules_of_tree(tree, {"cluster": "ns"}))
    entry = Resolver(rules, tree, known or KnownAccounts()).resolve(key).entry
    return "" if entry < 0 else tree.path(entry)


def test_mapping_precedence_is_attachments_exact_rules_members_then_others() -> None:
    tree = grown({"a": (MembershipRule(group="g*"),), "b": (MembershipRule(group="g1"),)})
    uid = {name: tree.uuid(i) for i, name in enumerate(tree.name)}
    stored = [
        Rule("glob", uid["c"], user_pattern="*"),
        Rule("default", uid["a"]),
        Rule("exact", uid["c"], user_pattern="eve"),
    ]
    assert place(tree, stored, AccountKey("ns", "x", "g1")) == "/a/b", "deeper before shallower"
    assert place(tree, stored, AccountKey("ns", "x", "g2")) == "/a"
    assert place(tree, stored, AccountKey("ns", "x", "h")) == "/a/b/c", "the stored order, where no member's rule is"
    assert place(tree, stored, AccountKey("ns", "eve", "g1")) == "/a/b/c", "an exact rule first"
    assert place(tree, stored, AccountKey("ns", "", "h", "")) == "/a", "the default last"
    key = AccountKey("ns", "eve", "g1")
    assert place(tree, stored, key, KnownAccounts({key: uid["a"]})) == "/a"


def test_a_membership_rule_of_a_source_matches_only_its_names() -> None:
    tree = grown({"a": (MembershipRule(source="cluster"),), "b": (MembershipRule(source="gone"),)})
    assert place(tree, [], AccountKey("ns", "x")) == "/a"
    assert place(tree, [], AccountKey("other", "x")) == ""


def test_member_patterns_support_only_star_and_question_mark() -> None:
    tree = grown(
        {
            "a": (MembershipRule(group="[ab]*"),),
            "b": (MembershipRule(group="g?"),),
            "c": (MembershipRule(fqan="/vo/x"),),
        }
    )
    assert place(tree, [], AccountKey("ns", "x", "[ab]c")) == "/a"
    assert place(tree, [], AccountKey("ns", "x", "ac")) == ""
    assert place(tree, [], AccountKey("ns", "x", "g1")) == "/a/b"
    assert place(tree, [], AccountKey("ns", "x", "", "", "/vo/x/Role=pilot")) == "/a/b/c"
    assert place(tree, [], AccountKey("ns", "x", "", "", "/vo/xy")) == ""


def test_an_account_of_a_group_member_maps_to_the_child_of_that_name() -> None:
    tree = columns_of(
        [
            Node(UUID(int=1), None, "root"),
            Node(UUID(int=2), UUID(int=1), "a", members=everywhere(MembershipRule(people="OIDC:physics"))),
            Node(UUID(int=3), UUID(int=2), "anna", "user", is_group=False),
        ]
    )
    key = AccountKey("ns", "u4711")
    known = KnownAccounts(persons={key: Person("anna", frozenset({"oidc:physics"}))})
    assert place(tree, [], key, known) == "/a/anna"
    assert place(tree, [], AccountKey("ns", "anna"), known) == "", "a name alone proves nothing"
    other = KnownAccounts(persons={key: Person("anna", frozenset({"oidc:biology"}))})
    assert place(tree, [], key, other) == ""


_NAMES = st.sampled_from(["", "a", "b", "a*", "*b", "?", "*", "[ab]", "a[b]*"])
_RULES = st.lists(
    st.builds(
        Rule,
        kind=st.sampled_from(["glob", "group", "exact", "each", "default"]),
        target_uid=st.integers(2, 4).map(lambda n: UUID(int=n)),  # what leads to the root leads nowhere
        namespace=st.sampled_from(["", "n"]),
        user_pattern=_NAMES,
        group_pattern=_NAMES,
        fqan_pattern=st.sampled_from(["", "/v", "/v/x", "/*", "/w", "/v/*", "/v/Role=NULL"]),
        people=st.sampled_from(["", "p", "q*"]),
    ),
    max_size=8,
)


@given(
    _RULES,
    st.sampled_from(["", "a", "b", "ab"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "/v/x", "/w"]),
    st.sampled_from([None, Person("u", frozenset({"p"})), Person("u", frozenset({"q1"}))]),
)
@example([Rule("exact", UUID(int=2), people="q*")], "", "", "", Person("u", frozenset({"q1"})))
def test_indexed_rules_give_the_same_result_as_all_rules(
    rules: list[Rule], user: str, group: str, fqan: str, person: Person | None
) -> None:
    tree, key = grown({}), AccountKey("n", user, group, "", fqan)
    known = KnownAccounts(persons={} if person is None else {key: person})
    first = next((at for at, rule in enumerate(rules) if rule.spelled.matches(key, person)), None)
    assert Resolver(tuple(rules), tree, known).decide(key)[1] == first


@pytest.fixture
def students(site: Site) -> Site:
    """Each user of the group `students` becomes a child of physics."""
    set_members(site, "/physics", {"group": "students", "shares": 2, "archive_after_days": 30})
    return site


def joined(n: int) -> str:
    """The reason of a revision by which as many became members."""
    return MembershipPlan(joined=[{} for _ in range(n)]).reason


def test_a_user_who_runs_a_job_becomes_a_member_with_the_shares_of_the_rule(students: Site) -> None:
    students.job("zoe", "students", 3)
    (revision,) = apply_membership_rules(at=AS_OF)
    tree = load_tree(students.policy, revision.number)
    zoe = tree.index_of_path("/physics/zoe")
    assert zoe is not None
    assert (float(tree.shares[zoe]), tree.node(zoe).kind, bool(tree.is_group[zoe])) == (2.0, "user", False)
    made = revision.change_set
    assert (made.origin, made.author_name, made.reason) == ("rule", "system", joined(1))
    assert AuditEvent.objects.filter(verb="policy.published", reason=made.reason).exists()


def test_before_joining_an_account_counts_at_the_entry_with_a_new_users_factor(students: Site) -> None:
    students.job("zoe", "students", 3)
    students.recompute()
    before = store.newest(students.slug)
    (answer,) = before.lookup(["zoe"])
    assert (answer["entry"], answer["provisional"]) == ("/physics", True)
    apply_membership_rules(at=AS_OF)
    students.recompute()
    (answer,) = store.newest(students.slug).lookup([AccountQuery("zoe", "students")])
    assert (answer["entry"], answer.get("provisional")) == ("/physics/zoe", None)


def test_a_second_run_adds_no_member_twice(students: Site) -> None:
    students.job("zoe", "students", 3)
    students.job("yan", "students", 3)
    assert len(apply_membership_rules(at=AS_OF)) == 1
    assert apply_membership_rules(at=AS_OF) == []
    assert {"/physics/zoe", "/physics/yan"} <= paths(students)


def test_an_idle_member_is_archived_and_restored_as_the_same_entry(students: Site) -> None:
    students.job("zoe", "students", 3)
    apply_membership_rules(at=AS_OF)
    uid = uid_of(students, "/physics/zoe")
    change(students, {"op": "set_shares", "entry": "/physics/zoe", "shares": 7})
    assert apply_membership_rules(at=AS_OF + 29 * DAY) == []
    (revision,) = apply_membership_rules(at=AS_OF + 31 * DAY)
    idle = revision.reason
    assert re.findall(r"\d+", idle) == ["1"]
    assert idle != joined(1)
    assert "/physics/zoe" not in paths(students)
    assert apply_membership_rules(at=AS_OF + 32 * DAY) == [], "old usage brings nobody back"
    students.job("zoe", "students", 1, ago_h=-24 * 33)
    (revision,) = apply_membership_rules(at=AS_OF + 34 * DAY)
    assert re.findall(r"\d+", revision.reason) == ["1"]
    assert revision.reason not in (idle, joined(1)), "it came back"
    assert uid_of(students, "/physics/zoe") == uid
    tree = load_tree(students.policy, revision.number)
    assert float(tree.shares[tree.index_of_path("/physics/zoe") or 0]) == 7.0


def test_a_waiting_job_keeps_or_restores_a_member(students: Site) -> None:
    students.job("zoe", "students", 3)
    apply_membership_rules(at=AS_OF)
    students.running("zoe", "students", cpus=1, since_h=1)
    assert apply_membership_rules(at=AS_OF + 90 * DAY) == []


def test_manually_added_members_are_archived_too_unless_dated_or_locked(site: Site) -> None:
    for user in ("alice", "bob"):
        site.job(user, "physics", 1, ago_h=24 * 100)
    change(site, {"op": "lock", "entry": "/physics/bob", "locked": True}, at=AS_OF - 90 * DAY)
    set_members(site, "/physics", {"group": "physics", "archive_after_days": 10})
    change(site, {"op": "add", "parent": "/physics", "name": "robot", "kind": "user"})
    apply_membership_rules(at=AS_OF + 100 * DAY)
    assert "/physics/alice" not in paths(site)
    assert {"/physics/bob", "/physics/robot"} <= paths(site)


def test_old_usage_adds_no_member(students: Site) -> None:
    students.job("old", "students", 5, ago_h=24 * 40)
    students.job("new", "students", 5, ago_h=24 * 5)
    apply_membership_rules(at=AS_OF)
    assert "/physics/new" in paths(students)
    assert "/physics/old" not in paths(students)


def test_without_an_idle_limit_every_user_ever_seen_is_a_member(site: Site) -> None:
    set_members(site, "/physics", {"group": "students"})
    site.job("old", "students", 5, ago_h=24 * 400)
    apply_membership_rules(at=AS_OF)
    assert "/physics/old" in paths(site)


def test_each_rules_use_the_same_mechanism(site: Site) -> None:
    each = site.rule(
        "/physics", kind="each", group_pattern="late", suffix="", member_shares=3.0, archive_after_idle_days=5
    )
    site.map(each, site.rule())
    site.job("zoe", "late", 1)
    apply_membership_rules(at=AS_OF)
    assert "/physics/zoe" in paths(site)
    (revision,) = apply_membership_rules(at=AS_OF + 6 * DAY)
    assert "/physics/zoe" not in paths(site), revision.reason


def test_a_manually_archived_member_stays_archived_until_the_next_job(students: Site) -> None:
    students.job("zoe", "students", 3)
    apply_membership_rules(at=AS_OF)
    change(students, {"op": "archive", "entry": "/physics/zoe"})
    assert apply_membership_rules(at=AS_OF + timedelta(hours=1)) == []
    students.job("zoe", "students", 1, ago_h=-5)
    apply_membership_rules(at=AS_OF + timedelta(hours=6))
    assert "/physics/zoe" in paths(students)


def test_members_of_a_sign_in_group_become_children_with_their_accounts(site: Site) -> None:
    anna = User.objects.create_user("anna")
    anna.groups.add(Group.objects.create(name="oidc:physics"))
    User.objects.create_user("berta")
    User.objects.filter(username="anna").update(date_joined=AS_OF - DAY)
    set_members(site, "/physics", {"people": "oidc:physics", "archive_after_days": 30})
    apply_membership_rules(at=AS_OF)
    assert "/physics/anna" in paths(site)
    assert "/physics/berta" not in paths(site)
    site.job("u4711", "whatever", 4)
    Account.objects.filter(user_name="u4711").update(person=anna)
    site.recompute()
    (answer,) = store.newest(site.slug).lookup(["u4711"])
    assert answer["entry"] == "/physics/anna"
    apply_membership_rules(at=AS_OF + 29 * DAY)
    assert "/physics/anna" in paths(site)
    anna.groups.clear()
    apply_membership_rules(at=AS_OF + 60 * DAY)
    assert "/physics/anna" not in paths(site), "left the group, and nobody touched the entry for 30 days"


@pytest.mark.parametrize("more", [{"source": "c"}, {"group": "x"}, {"fqan": "/vo"}])
def test_people_without_accounts_join_only_by_a_rule_that_asks_for_nothing_of_accounts(
    site: Site, more: dict[str, str]
) -> None:
    User.objects.create_user("anna", date_joined=AS_OF - DAY).groups.add(Group.objects.create(name="oidc:physics"))
    set_members(site, "/physics", {"people": "oidc:physics", **more})
    apply_membership_rules(at=AS_OF)
    assert "/physics/anna" not in paths(site)


def test_joining_or_leaving_a_group_makes_priorities_stale(site: Site) -> None:
    from apps.priorities.recompute.staleness import is_stale

    anna, team = User.objects.create_user("anna"), Group.objects.create(name="oidc:physics")
    site.job("u4711", "whatever", 4)
    Account.objects.filter(user_name="u4711").update(person=anna)
    set_members(site, "/physics", {"people": "oidc:phys*"})
    site.policy.refresh_from_db()
    site.recompute()
    assert not is_stale(site.policy, as_of=AS_OF)
    anna.groups.add(team)
    assert is_stale(site.policy, as_of=AS_OF)


def test_a_run_has_a_limit_and_the_next_one_continues(students: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_PLANNED_OPERATIONS", 3)
    for n in range(5):
        students.job(f"u{n}", "students", 1)
    (first,) = apply_membership_rules(at=AS_OF)
    assert first.n_changed == 3
    assert first.reason == joined(3)
    assert "3" in joined(3)
    (second,) = apply_membership_rules(at=AS_OF)
    assert second.n_changed == 2
    assert apply_membership_rules(at=AS_OF) == []


def test_an_existing_entry_of_the_same_name_blocks_a_member_silently(students: Site) -> None:
    change(students, {"op": "add", "parent": "/physics", "name": "keep", "kind": "reserve", "shares": 1})
    students.job("keep", "students", 1)
    before = AuditEvent.objects.count()
    assert apply_membership_rules(at=AS_OF) == []
    assert AuditEvent.objects.count() == before


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_runs_add_every_member_once(site: Site) -> None:
    set_members(site, "/physics", {"group": "students"})
    for n in range(20):
        site.job(f"u{n}", "students", 1)
    found: list[list[Revision]] = []
    start = threading.Barrier(3)

    def run() -> None:
        try:
            start.wait(timeout=30)
            found.append(apply_membership_rules(at=AS_OF))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, found)) == [0, 0, 1]
    assert ChangeSet.objects.filter(origin="rule").count() == 1
    assert sum(path.startswith("/physics/u") for path in paths(site)) == 20


@pytest.mark.django_db(transaction=True)
def test_a_run_that_dies_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    set_members(site, "/physics", {"group": "students"})
    site.job("zoe", "students", 1)
    publish = publish_automatic

    def dies(**given: Any) -> None:
        publish(**given)
        raise KeyboardInterrupt

    monkeypatch.setattr(membership, "publish_automatic", dies)
    with pytest.raises(KeyboardInterrupt):
        apply_membership_rules(at=AS_OF)
    monkeypatch.setattr(membership, "publish_automatic", publish)
    assert "/physics/zoe" not in paths(site)
    assert len(apply_membership_rules(at=AS_OF)) == 1
    assert "/physics/zoe" in paths(site)


def test_accounts_without_jobs_join_with_their_first_job(students: Site) -> None:
    account_ids([AccountKey(students.source.namespace, "idle", "students")], at=AS_OF)
    assert apply_membership_rules(at=AS_OF) == []


def test_one_account_that_was_used_is_new_activity_of_all_accounts_of_a_member() -> None:
    after = AS_OF - timedelta(hours=2)
    used = Activity({1: AS_OF, 2: after - timedelta(hours=1)}, {})
    assert [used.has_new_activity(accounts, after) for accounts in ([1], [2], [1, 2], [2, 1], [3], [])] == [
        True,
        False,
        True,
        True,
        False,
        False,
    ]
    waiting = Activity({}, {1: after, 2: AS_OF})
    assert [waiting.has_new_activity(accounts, after) for accounts in ([1], [1, 2])] == [False, True]
