"""Trials as an oracle: a member who tries numbers learns of hidden usage no more than its step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.forecast.after_job import ranks_after_job
from apps.core.errors import Invalid
from apps.pages.algorithm.comparison import compare_algorithms
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.policies.changesets.review import open_review
from apps.policies.models import Grant
from apps.policies.records import NewChangeSet
from apps.policies.services import change_settings, make_change_set
from apps.priorities.change_effects import simulate_operations
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store
from apps.priorities.shares_preview import preview_shares
from tests.examples import first
from tests.grants import make_grant
from tests.priority_site import AS_OF, Site, children
from tests.worlds import forget_process

World = Callable[[float], AbstractContextManager[tuple[Site, Actor]]]
OTHERS = {f"user{n}": 1.0 for n in range(8)}
TREE = children(physics={"": 50, "alice": 1, "bea": 1}, biology={"": 50, **OTHERS})
OWN_H, HIDDEN_H = 100.0, 1000.0
SAME_STEP = (1.0, 1.05, 1.2)  # of 1,000 core-hours: 3.6e6, 3.78e6 and 4.32e6 s are nearest to 10^6.6


@pytest.fixture(autouse=True)
def _unlimited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("apps.contrib.forecast.rate_limit.MOST_COMPUTATIONS_A_MINUTE", 10_000)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def world(make_site: Any) -> World:
    """A site whose hidden group used `part` of 1,000 core-hours, and a manager of the other group; then it is gone."""

    @contextmanager
    def make(part: float) -> Iterator[tuple[Site, Actor]]:
        with transaction.atomic():
            yield _make(part)
            transaction.set_rollback(True)
        forget_process()

    def _make(part: float) -> tuple[Site, Actor]:
        site: Site = make_site(visibility="path")
        site.publish(TREE)
        site.map()
        for user in OTHERS:
            site.job(user, "biology", HIDDEN_H * part / len(OTHERS))
        site.job("alice", "physics", OWN_H / 2)
        site.job("bea", "physics", OWN_H / 2)
        site.recompute()
        forget_process()
        store.poll()
        alice, _ = User.objects.get_or_create(username="alice")
        tree = store.newest(site.slug).tree
        physics = tree.index_of_path("/physics")
        assert physics is not None
        make_grant(alice, tree.uuid(physics), Grant.Role.MANAGER, policy=site.policy)
        return site, Actor(user=alice, via="page")

    return make


def bisect(is_behind: Callable[[float], bool], high: float) -> float:
    """The smallest number for which an answer changes, as an attacker finds it with 30 questions."""
    low = 0.0
    assert not is_behind(low)
    assert is_behind(high)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if is_behind(middle) else (middle, high)
    return high


def _uid(site: Site, path: str) -> Any:
    tree = store.newest(site.slug).tree
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def after_job(site: Site, actor: Actor, core_h: float) -> Any:
    uid = _uid(site, "/physics/alice")
    return ranks_after_job(policy_slug=site.slug, entry_uids=[uid], core_h=core_h, actor=actor, at=AS_OF)[uid].rank


def of_algorithm(site: Site, actor: Actor, k: float) -> Any:
    mixed = {"name": "aequus", "operator": "combined", "k": k}
    found = compare_algorithms(policy_slug=site.slug, algorithms=[{}, mixed], actor=actor)
    return [(leaf.path, [rank.rank for rank in leaf.ranks]) for leaf in found.leaves]


def of_draft(site: Site, actor: Actor, shares: float) -> Any:
    operations = [{"op": "set_shares", "entry": str(_uid(site, "/physics")), "shares": shares}]
    return simulate_operations(open_view(policy_slug=site.slug, actor=actor), operations)


def of_effect(site: Site, actor: Actor, shares: float) -> Any:
    operations = [{"op": "set_shares", "entry": str(_uid(site, "/physics")), "shares": shares}]
    new = NewChangeSet(operations=operations, reason="more for physics")
    made = make_change_set(policy_slug=site.slug, new=new, at=AS_OF, actor=actor)
    page = get_review_page(id=made.pk, actor=actor, at=AS_OF)
    return [(leaf.path, leaf.without, leaf.ranks_with) for leaf in page.leaves(50)], page.histogram


def of_limit(site: Site, actor: Actor, shares: float, users: int = 3) -> Any:
    """Why a second person must approve a proposal, by the rule on how many may change rank."""
    limits = {"review": {"users": users}}
    with suppress(Invalid):  # nothing to change from the second question on
        change_settings(policy_slug=site.slug, settings=limits, reason="four eyes", at=AS_OF, actor=COMMAND)
    operations = [{"op": "set_shares", "entry": str(_uid(site, "/physics")), "shares": shares}]
    new = NewChangeSet(operations=operations, reason="more for physics")
    made = make_change_set(policy_slug=site.slug, new=new, at=AS_OF, actor=actor)
    return open_review(id=made.pk, actor=actor, at=AS_OF).size(actor).reasons


def of_preview(site: Site, actor: Actor, shares: float) -> Any:
    found = preview_shares(policy_slug=site.slug, entry_uid=_uid(site, "/physics/alice"), shares=shares, actor=actor)
    return [(row.name, row.moves) for row in found.rows]


def is_moved(site: Site, actor: Actor, core_h: float) -> bool:
    return bool(after_job(site, actor, core_h) != after_job(site, actor, 0.0))


@pytest.mark.deep
def test_thirty_questions_find_no_more_than_the_step(world: World) -> None:
    recovered = set()
    for part in SAME_STEP:
        with world(part) as (site, actor):
            edge = bisect(partial(is_moved, site, actor), 5000.0)
        recovered.add(round(OWN_H + edge, 2))
    (found,) = recovered
    errors = [abs(found / (HIDDEN_H * part) - 1) for part in SAME_STEP]
    print(f"recovered {found} core-hours of {[HIDDEN_H * part for part in SAME_STEP]}: off by {errors}")
    assert max(errors) > 0.05


QUESTIONS: list[tuple[Callable[..., Any], list[dict[str, Any]]]] = [
    (after_job, [{"core_h": 10.0 * n} for n in range(0, 200, 5)]),
    (of_draft, [{"shares": n / 10} for n in range(36, 60, 2)]),
    (of_effect, [{"shares": n / 10} for n in range(36, 60, 2)]),
    (of_limit, [{"shares": n / 10} for n in range(36, 60, 2)]),
    (of_preview, [{"shares": n / 2} for n in range(1, 20, 6)]),
    (of_algorithm, [{"k": n / 20} for n in range(0, 21, 4)]),
]


INSIDE = (of_preview, of_algorithm)  # nothing that they change moves a visible rank past a hidden one


@pytest.mark.parametrize(("ask", "given"), first(1, QUESTIONS))
def test_worlds_within_one_step_give_the_same_answers(
    world: World, ask: Callable[..., Any], given: list[dict[str, Any]]
) -> None:
    answers = []
    for part in SAME_STEP:
        with world(part) as (site, actor):
            answers.append([_without_uids(ask(site, actor, **each)) for each in given])
    assert len({repr(each) for each in answers[0]}) > 1 or ask in INSIDE, "some question has another answer"
    assert answers[0] == answers[1] == answers[2]


def _without_uids(answer: Any) -> Any:
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return [{key: value for key, value in each.items() if key != "entry"} for each in answer]
    return answer


def test_the_number_of_hidden_leaves_that_move_is_not_shown(world: World) -> None:
    with world(1.0) as (site, actor):
        assert of_limit(site, actor, 3.6, users=0) == ["More leaves change rank; one person may change 0."]
        assert of_limit(site, actor, 5.8, users=0) == []


def test_what_changes_nothing_shows_the_ranks_of_now(world: World) -> None:
    with world(1.0) as (site, actor):
        assert of_draft(site, actor, 50.0) == []
        uid = _uid(site, "/physics/alice")
        found = preview_shares(policy_slug=site.slug, entry_uid=uid, shares=1, actor=actor)
        assert found.ranks is not None
        assert found.ranks.n_moved == 0
        assert [row.moves.n_moved for row in found.rows if row.moves] == [0] * len(found.rows)
