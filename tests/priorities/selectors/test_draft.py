"""The tree of a draft: rows before and after, found and opened, each as far as its author may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.core.errors import NotFound
from apps.policies.changesets.drafts import add_operations, open_draft
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.draft import DraftView, find_entries, get_draft_page, open_draft_view
from apps.priorities.selectors.tree import WINDOW
from tests.grants import make_grant
from tests.priority_site import AS_OF, PROJECTS, Site, children

pytestmark = pytest.mark.django_db


def uid_of(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def drafted(site: Site, actor: Actor, *operations: dict[str, Any]) -> DraftView:
    draft = open_draft(policy_slug=site.slug, at=AS_OF, actor=actor)
    if operations:
        add_operations(id=draft.pk, version=draft.version, operations=operations, at=AS_OF, actor=actor)
    return open_draft_view(change_set_id=draft.pk, at=AS_OF, actor=actor)


def node_at(view: DraftView, path: str) -> Node:
    (found,) = find_entries(view, path)
    return found


def paths(view: DraftView, **asked: Any) -> list[str]:
    return [view.tree.path(row.node) for row in get_draft_page(view, **asked).rows]


def test_before_the_first_snapshot_a_draft_has_targets_and_no_usage(site: Site, as_eva: Actor) -> None:
    rows = get_draft_page(drafted(site, as_eva)).rows
    assert {row.actual for row in rows} == {None}
    assert not any(row.has_usage for row in rows)
    assert {row.node.name: row.target for row in rows if row.level == 2} == {"physics": 0.6, "biology": 0.4}


def test_an_added_entry_has_no_usage_and_shifts_the_targets_of_its_siblings(site: Site, as_eva: Actor) -> None:
    site.recompute()
    add = {"op": "add", "parent": "/physics", "name": "erin", "kind": "user", "shares": 2}
    rows = {row.node.name: row for row in get_draft_page(drafted(site, as_eva, add)).rows}
    erin, alice, root = rows["erin"], rows["alice"], rows["grid"]
    assert (erin.status, erin.before, erin.target, erin.actual, erin.has_usage) == ("added", None, 0.5, None, False)
    assert (alice.is_shifted, alice.target_before, alice.target) == (True, 0.5, 0.25)
    assert alice.actual == pytest.approx(40 / 55)
    assert (root.actual, root.has_usage, rows["carol"].is_shifted) == (1.0, True, False)


def test_an_entry_is_among_its_siblings_however_few_are_shown(
    site: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.priorities.selectors.draft.PAGE", 1)
    view = drafted(site, as_eva)
    first = view.siblings(node_at(view, "/physics/bob"))
    assert [(row.node.name, row.pos_in_set, row.set_size) for row in first] == [("alice", 1, 2), ("bob", 2, 2)]
    assert [(row.node.name, row.pos_in_set, row.set_size) for row in view.siblings(view.tree.root)] == [("grid", 1, 1)]
    assert view.row(view.tree.root).set_size == 1


def test_entries_are_found_by_the_names_that_the_draft_gives_them(site: Site, as_eva: Actor) -> None:
    view = drafted(
        site,
        as_eva,
        {"op": "rename", "entry": "/physics/alice", "name": "alina"},
        {"op": "add", "parent": "/biology", "name": "ali", "kind": "user", "shares": 1},
        {"op": "archive", "entry": "/biology/dan"},
    )
    found = {
        query: sorted(view.tree.path(node) for node in find_entries(view, query)) for query in ("ALI", "alice", "d")
    }
    assert found == {"ALI": ["/biology/ali", "/physics/alina"], "alice": [], "d": []}
    assert (find_entries(view, "/physics/alice"), find_entries(view, "/biology/dan"), find_entries(view, " ")) == (
        [],
        [],
        [],
    )
    assert view.tree.path(node_at(view, "/physics/alina")) == "/physics/alina"
    assert len(find_entries(view, "o", most=1)) == 1
    gone = view.base.node(view.base.index_of_uid(uid_of(site, "/biology/dan")) or 0)
    assert view.sees_before(gone)
    with pytest.raises(NotFound):
        view.require(gone.uid)


def test_a_page_of_matches_opens_the_way_to_them(site: Site, as_eva: Actor) -> None:
    view = drafted(site, as_eva)
    page = get_draft_page(view, query="bob")
    assert [view.tree.path(row.node) for row in page.rows] == ["/", "/physics", "/physics/bob"]
    assert (page.n_matches, page.rows[-1].pos_in_set, page.rows[-1].set_size) == (1, 2, 2)
    assert paths(view, query="/") == ["/"]
    assert paths(view, query="nobody") == ["/"]


def test_opened_entries_that_are_unknown_are_skipped(site: Site, as_eva: Actor) -> None:
    view = drafted(site, as_eva)
    assert paths(view, open_uids=[uuid4(), uid_of(site, "/physics")]) == [
        "/", "/biology", "/physics", "/physics/alice", "/physics/bob",
    ]  # fmt: skip
    assert paths(view, open_uids=[uuid4()]) == ["/", "/biology", "/physics"]


def test_a_long_group_continues_where_its_first_rows_end(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made, n = make_site(), WINDOW + 5
    made.publish(children(physics={f"u{k:02}": 1.0 for k in range(n)}))
    view, uid = drafted(made, as_eva), uid_of(made, "/physics")
    page = get_draft_page(view, open_uids=[uid])
    (more,) = page.more
    assert (len(page.rows), more.parent_uid, more.remaining) == (2 + WINDOW, uid, 5)
    rest = get_draft_page(view, parent_uid=uid, cursor=more.cursor)
    assert [row.node.name for row in rest.rows] == [f"u{k:02}" for k in range(WINDOW, n)]
    assert (rest.more, rest.rows[0].pos_in_set, rest.rows[0].set_size) == ([], WINDOW + 1, n)
    found = get_draft_page(view, query="u")
    assert (found.n_matches, len(found.rows), [one.remaining for one in found.more]) == (n, 2 + WINDOW, [5])


@pytest.fixture
def closed(make_site: Callable[..., Site]) -> Site:
    """People see their own path and what they have a role at."""
    made = make_site(visibility="path")
    made.publish(PROJECTS)
    made.map()
    made.job("alice", "physics", 40)
    made.job("carol", "biology", 60)
    made.recompute()
    return made


def test_a_manager_drafts_in_the_own_group_and_sees_no_other(closed: Site) -> None:
    pia = User.objects.create_user("pia")
    make_grant(pia, uid_of(closed, "/physics"), policy=closed.policy, reason="test")
    add = {"op": "add", "parent": "/physics", "name": "bea", "kind": "user", "shares": 1}
    view = drafted(closed, Actor(user=pia, via="page"), add)
    rows = {view.tree.path(row.node): row for row in get_draft_page(view).rows}
    assert list(rows) == ["/", "/physics", "/physics/alice", "/physics/bea", "/physics/bob"]
    assert (rows["/"].n_children, rows["/physics"].n_children) == (1, 3)
    may = {path: (row.may_change, row.may_divide) for path, row in rows.items()}
    assert (may["/"], may["/physics"]) == ((False, False), (False, True))
    assert may["/physics/alice"] == may["/physics/bea"] == (True, True)
    assert find_entries(view, "carol") == find_entries(view, "/biology") == []
    page = get_draft_page(view, open_uids=[uid_of(closed, "/biology")])
    assert (len(page.rows), page.opened) == (2, frozenset([uid_of(closed, "/")]))
    with pytest.raises(NotFound):
        get_draft_page(view, parent_uid=uid_of(closed, "/biology"))


def test_who_may_edit_shares_without_seeing_members_numbers_gets_none(closed: Site) -> None:
    pia = User.objects.create_user("pia")
    make_grant(pia, uid_of(closed, "/physics"), policy=closed.policy, verbs=["edit_shares"], reason="test")
    rows = get_draft_page(drafted(closed, Actor(user=pia, via="page"))).rows
    assert {row.node.name: (row.actual, row.has_usage) for row in rows} == dict.fromkeys(
        ("grid", "physics", "alice", "bob"), (None, False)
    )


def test_a_token_of_a_subtree_sees_no_rows_above_it(closed: Site, as_eva: Actor) -> None:
    uid = uid_of(closed, "/physics")
    bounds = TokenBounds("fsh_x", frozenset({"admin"}), policy_slug="grid", subtree_uid=uid)
    view = drafted(closed, Actor(user=as_eva.user, via="api", token=bounds))
    assert paths(view) == []
    assert paths(view, parent_uid=uid) == ["/physics/alice", "/physics/bob"]
