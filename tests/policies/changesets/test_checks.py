"""Checks of a change set: each passes, warns or blocks, and names no entry outside the reader's view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import Actor
from apps.policies import services
from apps.policies.changesets import drafts, lifecycle
from apps.policies.changesets.checks import Check, list_checks
from apps.policies.changesets.review import review_of
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.tree.columns import TreeColumns
from tests.instants import AT
from tests.policies.changesets.test_rebase import publish
from tests.policies.changesets.test_review import drafted, shares
from tests.policies.conftest import person
from tests.security.delegated_world import make_world

OPEN = ["shape", "base", "algorithm", "sums", "locks", "delegation", "accounts", "size"]
CYRILLIC_ALICE = "\u0430lice"
CYRILLIC_BOB = "b\u043eb"


def checks(change_set: ChangeSet, reader: Actor, *hidden: str) -> dict[str, Check]:
    """By code, as a reader sees them who doesn't see the `hidden` entries."""
    change_set.refresh_from_db()
    review = review_of(change_set, at=AT)
    sees = np.ones(len(review.after), dtype=np.bool_)
    sees[[i for i in range(len(review.after)) if review.after.path(i) in hidden]] = False
    return {check.code: check for check in list_checks(review, sees=sees, actor=reader)}


def test_an_ordinary_change_passes_each_check(policy: Policy, alice: Actor) -> None:
    found = checks(drafted(alice, shares("/physics", 31)), alice)
    assert list(found) == OPEN
    assert {check.state for check in found.values()} == {"ok"}


def test_an_empty_draft_is_blocked(policy: Policy, alice: Actor) -> None:
    found = checks(drafts.open_draft(policy_slug="grid", at=AT, actor=alice), alice)
    assert {code: check.state for code, check in found.items()} == {"edits": "block"}


def test_a_change_set_without_an_outcome_is_only_judged_as_a_whole(policy: Policy, alice: Actor) -> None:
    draft = drafts.open_draft(policy_slug="grid", at=AT, actor=alice)
    services.withdraw_change_set(id=draft.pk, version=draft.version, at=AT, actor=alice)
    assert {code: check.state for code, check in checks(draft, alice).items()} == {"shape": "block"}
    first = ChangeSet.objects.get(base_number=0)
    assert {code: check.state for code, check in checks(first, alice).items()} == {"shape": "ok"}


def test_shares_that_become_zero_are_named_once(policy: Policy, alice: Actor) -> None:
    one = checks(drafted(alice, shares("/physics/alice", 0)), alice)["sums"]
    assert (one.state, "/physics/alice" in one.text) == ("warn", True)
    group = checks(drafted(alice, shares("/physics/alice", 0), shares("/physics/bob", 0)), alice)["sums"]
    assert (group.state, "/physics" in group.text, "/physics/" in group.text) == ("warn", True, False)
    publish(alice, shares("/physics/alice", 0))
    again = checks(drafted(alice, shares("/physics/bob", 4)), alice)["sums"]
    assert again.state == "ok"


def test_three_entries_are_named_and_hidden_ones_counted(policy: Policy, alice: Actor) -> None:
    added = [
        {"op": "add", "parent": "/physics", "name": name, "kind": "user", "shares": 0} for name in ("p1", "p2", "p3")
    ]
    draft = drafted(alice, shares("/physics/alice", 0), *added)
    text = checks(draft, alice)["sums"].text
    assert (text.count("/physics/"), "1 more" in text) == (3, True)
    text = checks(draft, alice, "/physics/alice", "/physics/p1")["sums"].text
    assert (text.count("/physics/"), "2 more" in text, "alice" in text) == (2, True, False)
    everything = [f"/physics/{name}" for name in ("alice", "p1", "p2", "p3")]
    text = checks(draft, alice, *everything)["sums"].text
    assert ("/physics" in text, "4" in text) == (False, True)


def test_a_locked_entry_blocks_others_and_warns_who_locked_it(policy: Policy, alice: Actor, bob: Actor) -> None:
    publish(alice, {"op": "lock", "entry": "/physics/alice"})
    draft = drafted(alice, shares("/physics/alice", 2))
    found = checks(draft, alice)["locks"]
    assert (found.state, "/physics/alice" in found.text) == ("warn", True)
    found = checks(draft, bob, "/physics/alice")["locks"]
    assert (found.state, "alice" in found.text) == ("block", False)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Mine.", at=AT, actor=alice)
    assert checks(draft, bob)["locks"].state == "warn"  # nothing is left to block


def test_an_algorithm_without_inherited_shares_is_blocked(policy: Policy, alice: Actor) -> None:
    draft = drafted(alice, shares("/physics/alice", "parent"))
    publish(alice, {"op": "set_policy", "settings": {"algorithm": {"name": "flux"}}})
    found = checks(draft, alice)["algorithm"]
    assert (found.state, "/physics/alice" in found.text) == ("block", True)
    found = checks(draft, alice, "/physics/alice")["algorithm"]
    assert (found.state, "alice" in found.text) == ("block", False)


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "parent": "/physics", "name": CYRILLIC_ALICE, "kind": "user", "shares": 1}],
        [{"op": "rename", "entry": "/physics/bob", "name": CYRILLIC_ALICE}],
    ],
)
def test_new_names_that_look_like_a_siblings_are_reported(
    policy: Policy, alice: Actor, operations: list[dict[str, Any]]
) -> None:
    draft = drafted(alice, *operations)
    assert checks(draft, alice)["names"].state == "warn"
    assert "names" not in checks(draft, alice, "/physics/alice")
    publish(alice, *operations)
    assert "names" not in checks(drafted(alice, shares("/physics", 31)), alice)  # the pair is not new


def test_an_added_name_that_another_group_has_is_reported_beside_a_look_alike(policy: Policy, alice: Actor) -> None:
    publish(alice, {"op": "add", "parent": "/biology", "name": CYRILLIC_BOB, "kind": "user", "shares": 1})
    draft = drafted(alice, {"op": "add", "parent": "/biology", "name": "bob", "kind": "user", "shares": 1})
    assert checks(draft, alice)["names"].state == "warn"


def test_an_entry_that_moves_beside_a_name_like_its_own_is_reported(policy: Policy, alice: Actor) -> None:
    publish(alice, {"op": "add", "parent": "/biology", "name": CYRILLIC_ALICE, "kind": "user", "shares": 1})
    draft = drafted(alice, {"op": "move", "entry": f"/biology/{CYRILLIC_ALICE}", "parent": "/physics"})
    assert checks(draft, alice)["names"].state == "warn"


def test_an_author_without_the_right_to_publish_reads_who_has_it(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor
) -> None:
    draft = drafted(bob, shares("/physics/alice", 2))
    assert checks(draft, bob)["delegation"].state == "ok"
    Grant.objects.update(verbs=["view_aggregate", "edit_shares"])
    found = checks(draft, bob)["delegation"]
    assert (found.state, "bob" in found.text, "alice" in found.remedy) == ("warn", True, True)
    assert alice.user is not None
    alice.user.is_active = False
    alice.user.save()
    found = checks(draft, bob)["delegation"]
    assert (found.state, "alice" in found.remedy) == ("warn", False)


def test_a_large_change_is_blocked_until_a_second_person_approves(policy: Policy, alice: Actor) -> None:
    publish(alice, {"op": "set_policy", "settings": {"review": {"points": 5}}})
    assert checks(drafted(alice, shares("/physics", 31)), alice)["size"].state == "ok"
    draft = drafted(alice, shares("/physics", 90))
    found = checks(draft, alice)["size"]
    assert (found.state, found.remedy) == ("block", "")  # nobody else may approve
    asked = services.propose_change_set(id=draft.pk, version=draft.version, reason="More.", at=AT, actor=alice)
    boss = person("boss", is_admin=True)
    found = checks(draft, alice)["size"]
    assert (found.state, "boss" in found.remedy) == ("block", True)
    lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=boss)
    found = checks(draft, alice)["size"]
    assert (found.state, "boss" in found.title) == ("ok", True)


@pytest.mark.parametrize("hidden_shares", [5, 49, 500, 50_000])
def test_the_size_of_changes_that_a_reader_does_not_see_is_not_shown(
    policy: Policy, alice: Actor, bob: Actor, hidden_shares: int
) -> None:
    """Bob manages physics, and sees neither biology nor what is below it."""
    for name, n in (("a", 1), ("b", 1)):
        publish(alice, {"op": "add", "parent": "/biology/lab", "name": name, "kind": "user", "shares": n})
    hidden = ("/biology", "/biology/lab", "/biology/lab/a", "/biology/lab/b", "/reserve")
    draft = drafted(alice, shares("/physics/bob", 3.1), shares("/biology/lab/a", hidden_shares))
    review = review_of(draft, at=AT)
    assert review.size(bob).points == pytest.approx(100 * (3.1 / 4.1 - 3 / 4))
    assert review.size(alice).points == pytest.approx(100 * (hidden_shares / (hidden_shares + 1) - 1 / 2))
    found = checks(draft, bob, *hidden)["size"]
    assert found.text == "The largest target change of the entries in your view is 0.6 points."
    publish(alice, {"op": "set_policy", "settings": {"review": {"points": 5}}})
    found = checks(draft, bob, *hidden)["size"]
    assert (found.state, found.text) == ("block", "Entries move more than 5 points.")
    assert checks(draft, alice)["size"].text == "2 entries move more than 5 points."


def test_targets_of_entries_that_a_reader_does_not_see_are_left_out_when_added_or_archived(
    policy: Policy, alice: Actor, bob: Actor
) -> None:
    publish(alice, {"op": "add", "parent": "/biology/lab", "name": "a", "kind": "user", "shares": 1})
    draft = drafted(
        alice,
        {"op": "add", "parent": "/biology/lab", "name": "b", "kind": "user", "shares": 9},
        {"op": "archive", "entry": "/biology/lab/a"},
        {"op": "add", "parent": "/physics", "name": "carla", "kind": "user", "shares": 1},
    )
    review = review_of(draft, at=AT)
    assert review.size(bob).points == pytest.approx(20), "carla's"
    assert review.size(alice).points == pytest.approx(100)


def test_a_conflict_with_a_later_revision_blocks(policy: Policy, alice: Actor) -> None:
    draft = drafted(alice, shares("/physics", 40))
    publish(alice, shares("/biology", 55))
    assert checks(draft, alice)["base"].state == "ok"
    publish(alice, shares("/physics", 35))
    found = checks(draft, alice)["base"]
    assert (found.state, "1" in found.title) == ("block", True)


def test_moving_accounts_of_others_is_blocked_and_names_who_may(db: None) -> None:
    people = make_world()
    everybody = {"op": "set_members", "entry": "/physics/seasonal", "members": [{"group": "*"}]}
    publish(people["pia"], everybody)
    draft = drafted(people["ben"], {"op": "set_members", "entry": "/biology", "members": []})
    admin = people["admin"].user
    assert admin is not None
    found = checks(draft, people["ben"])["accounts"]
    assert (found.state, admin.username in found.remedy) == ("block", True)
    assert checks(draft, people["admin"])["accounts"].state != "block"
    admin.is_active = False
    admin.save()
    found = checks(draft, people["ben"])["accounts"]
    assert (found.state, admin.username in found.remedy) == ("block", False)
