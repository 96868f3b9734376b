from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import Account, User
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.explain.account_path import explain, explain_me, get_me
from apps.explain.contrasts import compare_leaves, find_leaves
from apps.explain.entry_page import get_entry_page
from apps.explain.my_priority import get_my_priority
from apps.explain.path import level_messages, step_at
from apps.explain.verdict import AccountFacts
from apps.mapping.removal import archive_policy
from apps.pages.monitoring.policy_gauges import count_outside
from apps.policies.services import change_shares
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors import (
    EntryRow,
    count_unmapped_by_source,
    freshness,
    get_tree_page,
    list_snapshots,
    open_view,
)
from apps.priorities.selectors.overview import overview_of
from apps.priorities.selectors.tree_listing import Arrangement
from apps.priorities.serving import store
from apps.priorities.serving.store import newest
from apps.priorities.shares_preview import preview_shares
from apps.usage.models import Bucket
from tests.grants import make_grant
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site, children

pytestmark = pytest.mark.django_db


def _by_path(rows: list[EntryRow]) -> dict[str, EntryRow]:
    return {row.path: row for row in rows}


def _uid(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    at = tree.index_of_path(path)
    assert at is not None
    return tree.uuid(at)


def test_the_tree_has_target_and_actual(site: Site, as_eva: Actor) -> None:
    site.recompute()
    page = get_tree_page(policy_slug="grid", actor=as_eva)
    assert [row.path for row in page.rows] == [
        "/",
        "/biology",
        "/biology/carol",
        "/biology/dan",
        "/physics",
        "/physics/alice",
        "/physics/bob",
    ]
    rows = _by_path(page.rows)
    physics = rows["/physics"]
    assert (physics.target, physics.actual, physics.level, physics.is_open) == (0.6, 0.55, 2, True)
    assert physics.deviation_points == pytest.approx(-5)
    assert (physics.pos_in_set, physics.set_size, physics.n_children, physics.hidden_children) == (2, 2, 2, 0)
    assert physics.usage == 55 * 3600
    alice = rows["/physics/alice"]
    assert alice.target_global == pytest.approx(0.3)
    assert alice.actual_global == pytest.approx(0.4)
    assert (alice.rank, alice.factor) == (2, 0.75)
    root = rows["/"]
    assert (root.parent_uid, root.target, root.actual, root.rank) == (None, 1.0, 1.0, None)
    assert (page.revision, page.as_of, page.n_entries, page.n_ranked) == (2, AS_OF, 7, 4)


def test_the_state_distinguishes_no_demand_from_starved(site: Site, as_eva: Actor) -> None:
    site.recompute()
    states = {path: row.state for path, row in _by_path(get_tree_page(policy_slug="grid", actor=as_eva).rows).items()}
    assert states == {
        "/": "on",
        "/biology": "over",
        "/physics": "on",
        "/physics/alice": "over",
        "/physics/bob": "under",
        "/biology/carol": "over",
        "/biology/dan": "idle",
    }
    site.running("dan", "biology", cpus=1, since_h=1)
    site.recompute()
    page = get_tree_page(policy_slug="grid", actor=as_eva)
    assert _by_path(page.rows)["/biology/dan"].state == "under", "waits for its turn, has used nothing yet"
    assert page.n_out_of_tolerance == 5


def test_leaves_can_have_a_wider_tolerance_than_groups(site: Site, as_eva: Actor) -> None:
    wide = {**NO_AGING, "tolerance": {"relative": 0.1, "points": 0.5, "leaves": {"relative": 3, "points": 20}}}
    site.publish(PROJECTS, wide)
    site.recompute()
    page = get_tree_page(policy_slug="grid", actor=as_eva)
    states = {path: row.state for path, row in _by_path(page.rows).items()}
    assert {path: state for path, state in states.items() if state in ("over", "under")} == {"/biology": "over"}
    snapshot = newest(site.slug)
    steps = {snapshot.tree.path(i): step_at(snapshot, i).state for i in range(1, len(snapshot.tree))}
    assert steps == {path: state for path, state in states.items() if path != "/"}
    assert page.n_out_of_tolerance == sum(count_outside(snapshot)) == 1


def test_before_the_first_snapshot_there_are_targets_only(site: Site, as_eva: Actor) -> None:
    page = get_tree_page(policy_slug="grid", actor=as_eva)
    row = _by_path(page.rows)["/physics"]
    assert page.as_of is None
    assert (row.target, row.actual, row.rank, row.state, row.has_usage) == (0.6, None, None, "unknown", False)


def test_after_a_publish_new_targets_are_shown_with_the_last_numbers(site: Site, as_eva: Actor) -> None:
    site.recompute()
    site.publish(children(physics={"": 50, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3}, new={"": 10}))
    page = get_tree_page(policy_slug="grid", actor=as_eva)
    rows = _by_path(page.rows)
    assert page.revision == 3
    assert (rows["/physics"].target, rows["/physics"].actual) == (0.5, 0.55)
    assert (rows["/new"].target, rows["/new"].actual, rows["/new"].state) == (0.1, None, "unknown")
    old = get_tree_page(policy_slug="grid", actor=as_eva, at=2)
    assert (_by_path(old.rows)["/physics"].target, old.revision) == (0.6, 2)
    then = get_tree_page(policy_slug="grid", actor=as_eva, at=AS_OF + timedelta(minutes=1))
    assert then.as_of == AS_OF


def test_only_requested_rows_are_expanded(site: Site, as_eva: Actor) -> None:
    page = get_tree_page(
        policy_slug="grid", actor=as_eva, arranged=Arrangement(open_uids=[_uid(site, "/physics"), uuid4()])
    )
    assert [row.path for row in page.rows] == ["/", "/biology", "/physics", "/physics/alice", "/physics/bob"]
    below = get_tree_page(policy_slug="grid", actor=as_eva, parent_uid=_uid(site, "/physics"))
    assert [(row.path, row.pos_in_set, row.set_size) for row in below.rows] == [
        ("/physics/alice", 1, 2),
        ("/physics/bob", 2, 2),
    ]
    with pytest.raises(NotFound):
        get_tree_page(policy_slug="grid", actor=as_eva, parent_uid=uuid4())


def test_wide_groups_are_paged_by_a_hundred(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made = make_site()
    made.publish(children(wide={"": 1, **{f"u{n:03d}": 1 for n in range(250)}}))
    wide, seen, cursor = _uid(made, "/wide"), [], None
    while True:
        page = get_tree_page(policy_slug="grid", actor=as_eva, parent_uid=wide, cursor=cursor)
        seen += [(row.name, row.pos_in_set) for row in page.rows]
        assert len(page.rows) <= 100
        if not page.more:
            break
        more = page.more[0]
        cursor = more.cursor
        assert (more.parent_uid, more.level, more.remaining) == (wide, 3, 250 - len(seen))
    assert seen == [(f"u{n:03d}", n + 1) for n in range(250)]


def test_a_search_shows_matches_with_their_ancestors(site: Site, as_eva: Actor) -> None:
    page = get_tree_page(policy_slug="grid", actor=as_eva, arranged=Arrangement(query="aLi"))
    assert [row.path for row in page.rows] == ["/", "/physics", "/physics/alice"]
    assert (page.query, page.n_matches) == ("aLi", 1)
    assert get_tree_page(policy_slug="grid", actor=as_eva, arranged=Arrangement(query="/biology/dan")).n_matches == 1
    assert get_tree_page(policy_slug="grid", actor=as_eva, arranged=Arrangement(query="zzz")).n_matches == 0


def test_users_see_their_own_path_and_granted_subtrees(
    make_site: Callable[..., Site], as_alice: Actor, as_eva: Actor
) -> None:
    made = make_site(visibility="path")
    made.publish(PROJECTS)
    made.map()
    made.job("alice", "physics", 40)
    made.job("carol", "biology", 40)
    made.recompute()
    page = get_tree_page(policy_slug="grid", actor=as_alice)
    assert [row.path for row in page.rows] == ["/", "/physics", "/physics/alice"]
    assert (page.rows[1].hidden_children, page.rows[1].n_children) == (1, 1)
    assert page.n_entries == 3
    assert get_tree_page(policy_slug="grid", actor=as_alice, arranged=Arrangement(query="carol")).n_matches == 0
    for path in ("/biology", "/physics/bob"):
        with pytest.raises(NotFound):
            get_entry_page(policy_slug="grid", uid=_uid(made, path), actor=as_alice)
    assert as_alice.user is not None
    make_grant(as_alice.user, _uid(made, "/biology"), policy=made.policy, at=AS_OF)
    rows = _by_path(get_tree_page(policy_slug="grid", actor=as_alice).rows)
    assert "/biology/dan" in rows
    assert rows["/biology/dan"].may_change
    assert not rows["/biology"].may_change
    assert len(get_tree_page(policy_slug="grid", actor=as_eva).rows) == 7


def test_the_entry_page_has_path_group_and_history(site: Site, as_eva: Actor) -> None:
    site.recompute()
    uid = _uid(site, "/physics")
    change_shares(
        policy_slug="grid",
        entry_uid=uid,
        shares=90,
        reason="more",
        base_revision=2,
        at=AS_OF + timedelta(seconds=1),
        actor=as_eva,
    )
    page = get_entry_page(policy_slug="grid", uid=uid, actor=as_eva)
    assert [row.name for row in page.ancestors] == ["grid"]
    assert [row.name for row in page.siblings] == ["biology", "physics"]
    assert [row.name for row in page.children] == ["alice", "bob"]
    assert (page.n_children, page.usage, page.may_change, page.why_not) == (2, 55 * 3600, True, "")
    assert (page.last_changed_revision, page.revision) == (3, 3)
    newest = page.history[0]
    assert (newest.revision, newest.author, newest.reason, newest.fields) == (
        3,
        "eva",
        "more",
        [("shares", 60.0, 90.0)],
    )


def test_the_entry_page_explains_why_it_cannot_be_changed(site: Site, as_alice: Actor, as_eva: Actor) -> None:
    page = get_entry_page(policy_slug="grid", uid=_uid(site, "/physics/bob"), actor=as_alice)
    assert not page.may_change
    assert "physics" in page.why_not
    root = get_entry_page(policy_slug="grid", uid=_uid(site, "/"), actor=as_eva)
    assert not root.may_change
    assert root.siblings == [root.entry]


def test_my_priority_lists_the_path_with_stored_numbers(site: Site, as_alice: Actor) -> None:
    site.recompute()
    (mine,) = get_my_priority(actor=as_alice)
    assert (mine.account, mine.namespace, mine.policy_slug, mine.error) == ("alice", "c1", "grid", "")
    assert (mine.entry_path, mine.rank, mine.of, mine.factor) == ("/physics/alice", 2, 4, 0.75)
    physics, alice = mine.walk
    assert (physics.target, physics.actual, physics.n_ahead, physics.n_siblings) == (0.6, 0.55, 0, 1)
    assert (alice.state, alice.n_ahead, alice.n_siblings, alice.parent_name) == ("over", 1, 1, "physics")
    assert mine.deciding == 0, "a good rank of four: the two of biology are behind at the first level, one is ahead"
    assert mine.priorities == (physics.priority, alice.priority)
    assert (mine.vector, mine.key, mine.algorithm, mine.operator) == ((5416, 3437), "54163437", "aequus", "relative")
    standing, ahead = level_messages(alice)
    assert (standing.key, ahead.key) == ("walk.over", "ahead.some")
    assert standing.values["points"] == pytest.approx(22.7, abs=0.05)
    text = re.findall(r"alice|physics|\d+\.\d(?:\u00a0%)?", standing.text)
    assert sorted(text) == ["22.7", "50.0\u00a0%", "72.7\u00a0%", "alice", "physics"]
    assert ahead.values == {"n_ahead": 1, "n_siblings": 1}


def test_the_level_that_puts_most_others_ahead_decides(site: Site) -> None:
    carol = Actor(user=User.objects.create_user("carol"), via="page")
    site.recompute()
    (mine,) = get_my_priority(actor=carol)
    assert mine.deciding == 0
    assert mine.walk[0].name == "biology"


def test_all_accounts_of_a_user_are_listed_best_first(site: Site, as_alice: Actor) -> None:
    site.job("al", "biology", 1)
    site.job("al2", "nowhere", 1)
    assert as_alice.user is not None
    Account.objects.filter(user_name__in=["al", "al2", "alice"]).update(person=as_alice.user)
    site.recompute()
    mine = get_my_priority(actor=as_alice)
    assert [(one.account, one.error) for one in mine] == [("alice", ""), ("al", ""), ("al2", "unmapped")]
    assert mine[2].factor == 0.5


def test_users_without_an_account_or_snapshot_get_an_empty_answer(site: Site, as_alice: Actor) -> None:
    zoe = Actor(user=User.objects.create_user("zoe"), via="page")
    (before,) = get_my_priority(actor=as_alice)
    assert before.error == "no_snapshot"
    site.recompute()
    (mine,) = get_my_priority(actor=zoe)
    assert (mine.account, mine.error) == ("zoe", "unmapped")
    with pytest.raises(NotAllowed):
        get_my_priority(actor=Actor(zoe.user, "api", TokenBounds("fsh_x", frozenset({"usage:write"}))))


def test_explain_has_numbers_and_a_sentence_for_each_level(site: Site, as_eva: Actor) -> None:
    site.recompute()
    found = explain(policy_slug="grid", account="alice", actor=as_eva)
    (result,) = found["results"]
    assert (result["entry"], result["rank"], result["deciding"]) == ("/physics/alice", 2, "/physics")
    assert result["sentence"] == " ".join(each["text"] for each in result["sentences"])
    assert re.findall(r"\d+|physics", result["sentence"]) == ["2", "4", "physics"]
    assert result["sentences"][0]["key"] == "rank.decided"
    assert result["sentences"][0]["values"] == {"rank": 2, "of": 4, "name": "physics"}
    step = result["steps"][0]
    assert (step["entry"], step["target"], step["actual"]) == ("/physics", 0.6, 0.55)
    keys = [(one["decides"], one["sentences"][0]["key"]) for one in result["steps"]]
    assert keys == [(True, "walk.on_decides"), (False, "walk.over")]
    assert step["message"]["key"] == "walk.on"
    assert step["compared_by"] == {"scope": "local", "sources": []}
    assert step["message"]["numbers"]["deviation_points"] == pytest.approx(-5)
    (nobody,) = explain(policy_slug="grid", account="nobody", actor=as_eva)["results"]
    assert (nobody["entry"], nobody["error"], nobody["factor"]) == (None, "unmapped", 0.5)
    assert "Send group too" in nobody["hint"]


def test_explain_hides_what_the_actor_may_not_see(make_site: Callable[..., Site], as_alice: Actor) -> None:
    made = make_site(visibility="path")
    made.publish(PROJECTS)
    made.map()
    made.job("alice", "physics", 40)
    made.recompute()
    assert explain(policy_slug="grid", account="alice", actor=as_alice)["results"][0]["entry"] == "/physics/alice"
    assert explain(policy_slug="grid", account="bob", actor=as_alice)["results"][0]["error"] == "unmapped"


def test_the_overview_summarises_and_lists_publications(site: Site, as_eva: Actor) -> None:
    site.job("erin", "chemistry", 7)
    site.recompute()
    overview = overview_of(open_view(policy_slug="grid", actor=as_eva))
    assert (overview.policy_slug, overview.n_children, overview.n_people) == ("grid", 2, 4)
    assert (overview.n_unmapped, overview.unmapped_core_s, overview.usage) == (1, 7 * 3600, 100 * 3600)
    assert [row.name for row in overview.children] == ["biology", "physics"]
    assert [(one.revision, one.reason) for one in overview.publishes] == [(2, "test"), (1, "A new policy.")]
    assert overview.publishes[0].n_changed >= 6


def test_freshness_names_late_sources(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = freshness()
    assert (empty.state, empty.as_of, empty.keys) == ("bad", None, ["nothing_computed"])
    site.recompute()
    assert (freshness().state, freshness(policy_slug="grid").revision) == ("ok", 2)
    site.source.expected_every_s = 3600
    site.source.save()
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(hours=4)).isoformat())
    chip = freshness()
    assert chip.state == "bad"
    assert chip.keys == ["priorities_late", "source_late"]
    assert ["c1" in problem for problem in chip.problems] == [False, True]
    assert [one.state for one in chip.inputs] == ["bad", "warn"]
    assert chip.inputs[1].label == "c1"


def test_freshness_never_raises(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_given: object, **_more: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(connection, "cursor", away)
    monkeypatch.setattr(connection, "close", lambda: None)
    assert "no_database" in freshness().keys


def test_unmapped_accounts_are_counted_by_source(site: Site, as_eva: Actor) -> None:
    site.job("erin", "chemistry", 7)
    site.job("finn", "chemistry", 2)
    site.recompute()
    assert count_unmapped_by_source(actor=as_eva) == {"grid-c1": (2, 9 * 3600)}


@pytest.mark.django_db(transaction=True)
def test_sums_of_unmapped_usage_are_read_again_once_the_server_is_another_one(
    site: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover: a lost transaction's watermark may be used again for other usage."""
    site.job("erin", "chemistry", 7)
    site.recompute()
    assert count_unmapped_by_source(actor=as_eva) == {"grid-c1": (1, 7 * 3600)}
    Bucket.objects.filter(account__user_name="erin").update(cpu_s=9.0)
    assert count_unmapped_by_source(actor=as_eva) == {"grid-c1": (1, 7 * 3600)}
    monkeypatch.setattr("apps.priorities.selectors.unmapped.SERVER_EPOCH", "'another'")
    assert count_unmapped_by_source(actor=as_eva) == {"grid-c1": (1, 2 * 9)}


def test_accounts_mapped_in_one_policy_are_not_unmapped(
    site: Site, make_site: Callable[..., Site], as_eva: Actor
) -> None:
    site.job("erin", "chemistry", 7)
    site.recompute()
    other = make_site("other")
    other.publish(children(chemistry={"": 1, "erin": 1}))
    other.map()
    other.recompute()
    assert count_unmapped_by_source(actor=as_eva) == {}


def test_an_archived_policy_hides_no_unmapped_account(
    site: Site, make_site: Callable[..., Site], as_eva: Actor
) -> None:
    site.job("erin", "chemistry", 7)
    site.recompute()
    other = make_site("other")
    other.publish(children(chemistry={"": 1, "erin": 1}))
    other.map()
    other.recompute()
    archive_policy(slug="other", reason="it was a trial", at=AS_OF, actor=COMMAND)
    assert count_unmapped_by_source(actor=as_eva) == {"grid-c1": (1, 7 * 3600)}


def test_snapshots_are_listed_without_their_bytes(site: Site, as_eva: Actor) -> None:
    kept = [site.recompute(), site.recompute(as_of=AS_OF + timedelta(seconds=1))]
    listed = list_snapshots(policy_slug="grid", actor=as_eva)
    assert [one.pk for one in listed] == [one.pk for one in reversed(kept)]
    assert "data" in listed[0].get_deferred_fields()


def test_a_preview_shows_the_effect_of_publishing(site: Site, as_eva: Actor) -> None:
    site.recompute()
    uid = _uid(site, "/physics")
    preview = preview_shares(policy_slug="grid", entry_uid=uid, shares=20, actor=as_eva)
    assert (preview.whole.name, preview.base_revision) == ("grid", 2)
    biology, physics = preview.rows
    assert (physics.is_changed, physics.before.shares, physics.after.shares) == (True, 60, 20)
    assert physics.before.target == 0.6
    assert physics.after.target == pytest.approx(1 / 3)
    assert (biology.is_changed, biology.before.target) == (False, 0.4)
    assert biology.after.target == pytest.approx(2 / 3)
    site.publish(children(physics={"": 20, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3, "dan": 1}))
    site.recompute()
    rows = _by_path(get_tree_page(policy_slug="grid", actor=as_eva).rows)
    for shown in preview.rows:
        assert shown.after.target == pytest.approx(rows["/" + shown.name].target)
        assert shown.after.state == rows["/" + shown.name].state


def test_a_preview_of_members_changes_their_ranks(site: Site, as_eva: Actor) -> None:
    site.recompute()
    preview = preview_shares(policy_slug="grid", entry_uid=_uid(site, "/physics/alice"), shares=99, actor=as_eva)
    moves = [(row.name, row.before.rank, row.moves.furthest) for row in preview.rows if row.moves]
    assert moves == [("alice", 2, 1), ("bob", 1, -1)]
    assert preview.ranks is not None
    assert preview.ranks.n_moved == 2
    assert store.newest("grid").lookup(["alice"])[0]["rank"] == 2, "nothing is stored"


def test_a_preview_of_inherit_compares_the_children_one_level_up(site: Site, as_eva: Actor) -> None:
    site.recompute()
    uid = _uid(site, "/physics")
    preview = preview_shares(policy_slug="grid", entry_uid=uid, shares="parent", actor=as_eva)
    rows = {row.name: row for row in preview.rows}
    assert rows["physics"].after.target is None
    assert rows["biology"].after.target == pytest.approx(40 / 42)
    site.publish([{**PROJECTS[0], "shares": "parent"}, PROJECTS[1]])
    site.recompute()
    after = _by_path(get_tree_page(policy_slug="grid", actor=as_eva).rows)
    assert after["/physics"].target is None
    assert after["/physics"].state == "unknown"


def test_a_preview_before_the_first_snapshot_has_no_ranks(site: Site, as_eva: Actor) -> None:
    preview = preview_shares(policy_slug="grid", entry_uid=_uid(site, "/physics"), shares=1, actor=as_eva)
    assert preview.ranks is None
    assert {row.moves for row in preview.rows} == {None}


def test_an_unchanged_preview_shows_the_numbers_of_now(site: Site, as_eva: Actor) -> None:
    site.recompute()
    preview = preview_shares(policy_slug="grid", entry_uid=_uid(site, "/physics"), actor=as_eva)
    assert [row.before for row in preview.rows] == [row.after for row in preview.rows]
    assert preview.ranks is None


def test_a_sibling_pays_for_a_preview(site: Site, as_eva: Actor) -> None:
    site.recompute()
    uid, giver = _uid(site, "/physics"), _uid(site, "/biology")
    preview = preview_shares(policy_slug="grid", entry_uid=uid, shares=70, giver=giver, actor=as_eva)
    assert {row.name: row.after.shares for row in preview.rows} == {"biology": 30, "physics": 70}
    preview = preview_shares(policy_slug="grid", entry_uid=uid, shares={"percent": 75.0}, giver=giver, actor=as_eva)
    assert {row.name: row.after.target for row in preview.rows} == {"biology": 0.25, "physics": 0.75}
    with pytest.raises(Invalid, match="enter at most 100"):
        preview_shares(policy_slug="grid", entry_uid=uid, shares=101, giver=giver, actor=as_eva)


def test_an_invisible_entry_has_no_preview(make_site: Callable[..., Site], as_alice: Actor) -> None:
    made = make_site(visibility="path")
    made.publish(PROJECTS)
    with pytest.raises(NotFound):
        preview_shares(policy_slug="grid", entry_uid=_uid(made, "/physics"), shares=1, actor=as_alice)


def test_the_command_sees_everything(site: Site) -> None:
    site.recompute()
    assert len(get_tree_page(policy_slug="grid", actor=COMMAND).rows) == 7


def test_a_token_of_a_subtree_sees_no_levels_above(site: Site, as_eva: Actor) -> None:
    site.recompute()
    bounds = TokenBounds("fsh_x", frozenset({"admin"}), policy_slug="grid", subtree_uid=_uid(site, "/physics/alice"))
    bound = Actor(user=as_eva.user, via="api", token=bounds)
    (result,) = explain(policy_slug="grid", account="alice", actor=bound)["results"]
    assert [step["entry"] for step in result["steps"]] == ["/physics/alice"]
    page = get_entry_page(policy_slug="grid", uid=_uid(site, "/physics/alice"), actor=bound)
    assert page.ancestors == []
    assert get_tree_page(policy_slug="grid", actor=bound).rows == []


def test_own_entries_are_visible_before_the_first_snapshot(make_site: Callable[..., Site], as_alice: Actor) -> None:
    made = make_site(visibility="path")
    made.publish(PROJECTS)
    made.map()
    made.job("alice", "physics", 40)
    rows = get_tree_page(policy_slug="grid", actor=as_alice).rows
    assert [row.path for row in rows] == ["/", "/physics", "/physics/alice"]


def test_leaves_to_compare_with_are_found_by_name_and_by_rank(make_site: Callable[..., Site], as_eva: Actor) -> None:
    """Without a name the nearest five ahead, then those behind; with one those that begin with it, by rank."""
    names = ("bea", "abe", "cab", "dan", "eve", "fab", "gus")
    made = make_site()
    made.publish(children(physics={name: 1 for name in names}, idle={"": 1}), NO_AGING)
    made.map()
    for place, name in enumerate(names):
        made.job(name, "physics", 1 + place)
    made.recompute()

    def found(path: str, query: str = "", actor: Actor = as_eva) -> list[tuple[str, int]]:
        hits = find_leaves(policy_slug="grid", entry_uid=_uid(made, path), query=query, actor=actor)
        assert [(hit.path, hit.parent_name) for hit in hits] == [(f"/physics/{hit.name}", "physics") for hit in hits]
        return [(hit.name, hit.rank) for hit in hits]

    assert found("/physics/gus") == [("fab", 6), ("eve", 5), ("dan", 4), ("cab", 3), ("abe", 2)]
    assert found("/physics/cab") == [("abe", 2), ("bea", 1), ("dan", 4), ("eve", 5), ("fab", 6)]
    assert found("/physics/gus", "ab") == [("abe", 2), ("cab", 3), ("fab", 6)]
    assert found("/physics/fab", " AB ") == [("abe", 2), ("cab", 3)]
    assert found("/physics/fab", "zz") == []
    assert find_leaves(policy_slug="grid", entry_uid=uuid4(), actor=as_eva) == []


def test_an_entry_with_hidden_numbers_is_compared_with_none(make_site: Callable[..., Site], as_alice: Actor) -> None:
    made = make_site(visibility="path")
    made.publish(PROJECTS, NO_AGING)
    made.map()
    for user, group in (("alice", "physics"), ("bob", "physics"), ("carol", "biology")):
        made.job(user, group, 3)
    made.recompute()
    for path in ("/physics/bob", "/biology/carol"):
        assert find_leaves(policy_slug="grid", entry_uid=_uid(made, path), actor=as_alice) == []
    assert find_leaves(policy_slug="grid", entry_uid=_uid(made, "/physics/alice"), actor=as_alice) == []


def test_a_group_without_members_is_a_level_of_a_group(make_site: Callable[..., Site]) -> None:
    made = make_site()
    made.publish([*PROJECTS, *children(idle={"": 5})], NO_AGING)
    made.map()
    made.job("alice", "physics", 1)
    made.recompute()
    snapshot = newest("grid")

    def is_group(path: str) -> bool:
        at = snapshot.tree.index_of_path(path)
        assert at is not None
        return step_at(snapshot, at).is_group

    assert [is_group(path) for path in ("/idle", "/physics", "/physics/alice")] == [True, True, False]


def test_the_smallest_job_is_shown_where_every_level_is_visible(site: Site, as_alice: Actor) -> None:
    """Its size would reveal what the groups above use."""
    site.recompute()
    (whole,) = get_my_priority(actor=as_alice)
    assert whole.smallest_job is not None
    uid = _uid(site, "/physics/alice")
    bounds = TokenBounds("fsh_x", frozenset({"self:read"}), policy_slug="grid", subtree_uid=uid)
    (part,) = get_my_priority(actor=Actor(as_alice.user, "api", bounds))
    assert ([step.path for step in part.walk], part.smallest_job) == (["/physics/alice"], None)


def test_an_account_of_rest_has_the_instant_of_its_numbers(site: Site, as_alice: Actor) -> None:
    def as_of() -> str | None:
        me = get_me(actor=as_alice, at=None, policy_slug=None, facts_of=lambda priority: AccountFacts())
        (account,) = me["accounts"]
        shown: str | None = account["as_of"]
        return shown

    def algorithm() -> str | None:
        facts: Any = {"account": "", "namespace": "", "entry": "", "facts_of": lambda priority: AccountFacts()}
        (account,) = explain_me(actor=as_alice, at=None, policy_slug=None, **facts)["accounts"]
        return None if account["algorithm"] is None else str(account["algorithm"]["name"])

    assert (as_of(), algorithm()) == (None, None)
    snapshot = site.recompute()
    assert algorithm() == "aequus"
    instant = as_of()
    assert instant is not None
    assert datetime.fromisoformat(instant) == snapshot.as_of


def test_a_tie_is_one_sentence_and_no_level_decides(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made = make_site()
    made.publish(PROJECTS, NO_AGING)
    made.map()
    for user in ("alice", "bob"):
        made.job(user, "physics", 3)
    made.recompute()
    compared = compare_leaves(policy_slug="grid", leaf="/physics/alice", other="/physics/bob", actor=as_eva)
    assert (compared.ahead, compared.difference.decided_by) == (None, "tie")
    assert [message.key for message in compared.sentences] == ["contrast.tie"]


def test_without_a_ranked_account_of_ones_own_both_entries_are_named(
    make_site: Callable[..., Site], as_alice: Actor
) -> None:
    made = make_site()
    made.publish(children(physics={"bob": 1, "carol": 1}), NO_AGING)
    made.map()
    made.job("bob", "physics", 3)
    made.recompute()
    with pytest.raises(NotFound, match="None of your accounts has a rank"):
        compare_leaves(policy_slug="grid", other="/physics/bob", actor=as_alice)
