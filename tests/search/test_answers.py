"""Answers to typed questions say what the pages say, correct a wrong premise, and hide what is hidden."""

from __future__ import annotations

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.explain.contrasts import compare_leaves
from apps.policies.models import Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.sentences import text_of
from apps.search.answers import SearchAnswer
from apps.search.questions import Unreadable, read_question
from apps.search.selectors import search_everything
from tests.dashboard.grid import SLUG, Grid
from tests.grants import make_grant

pytestmark = pytest.mark.django_db


def as_person(user: User) -> Actor:
    return Actor(user=user, via="page")


def ask(text: str, actor: Actor) -> SearchAnswer:
    answer = search_everything(query=text, actor=actor).answer
    assert answer is not None, text
    return answer


# --- Why --------------------------------------------------------------------------------------------------------------
def test_why_questions_use_the_comparison_of_two_leaves(open_grid: Grid) -> None:
    actor = as_person(open_grid.admin)
    compared = compare_leaves(policy_slug=SLUG, one="/atlas/alice", other="/atlas/bob", actor=actor)
    assert compared.ahead is compared.other, "bob used less"
    answer = ask("why is alice behind bob?", actor)
    assert (answer.key, answer.contradicts) == ("behind", False)
    assert answer.sentence == text_of(compared.sentences[:1])
    assert {row.name: row.actual for row in answer.rows} == {
        step.name: step.actual for step in (compared.ahead_step, compared.behind_step) if step is not None
    }
    assert [link.title for link in answer.links] == ["alice", "bob"]


@pytest.mark.parametrize(
    ("question", "key", "contradicts"),
    [
        ("why is alice ahead of bob", "behind", True),
        ("why is bob ahead of alice", "ahead", False),
        ("why is bob behind alice", "ahead", True),
        ("why is dave behind erin", "tie", True),
    ],
)
def test_a_false_assumption_is_corrected(open_grid: Grid, question: str, key: str, contradicts: bool) -> None:
    answer = ask(question, as_person(open_grid.admin))
    assert (answer.key, answer.contradicts) == (key, contradicts)


def test_i_means_the_own_account(open_grid: Grid) -> None:
    answer = ask("why am I behind bob", as_person(open_grid.alice))
    assert answer.key == "behind"
    assert ask("why am I behind bob", as_person(User.objects.create_user("guest"))).key == "nobody"


def test_groups_are_answered_without_a_rank(open_grid: Grid) -> None:
    answer = ask("why is atlas behind cms", as_person(open_grid.admin))
    assert answer.key == "not_compared"
    assert [row.name for row in answer.rows] == ["atlas", "cms"]


def test_a_hidden_name_is_answered_like_an_unknown_one(closed_grid: Grid) -> None:
    actor = as_person(closed_grid.alice)
    for question in (
        "why is alice behind {}",
        "when is {} on target",
        "what changed in {}",
        "who is over target in {}",
    ):
        answers = [ask(question.format(name), actor) for name in ("bob", "nil")]
        assert [answer.key for answer in answers] == ["nobody", "nobody"], question
        assert answers[0].sentence.replace("bob", "nil") == answers[1].sentence
        assert not answers[0].alike
    assert list(ask("when is alx on target", actor).alike) == []
    assert list(ask("when is alicia on target", actor).alike) == ["alice"]


# --- Who --------------------------------------------------------------------------------------------------------------
def test_who_is_over_agrees_with_the_tree(sample_grid: None) -> None:
    actor = as_person(User.objects.get(username="admin"))
    over = ask("who is over target", actor)
    under = ask("who is under target", actor)
    assert over.key == under.key == "off"
    assert all(row.actual is not None and row.target is not None for row in (*over.rows, *under.rows))
    assert all((row.actual or 0) > (row.target or 0) for row in over.rows)
    assert all((row.actual or 0) < (row.target or 0) for row in under.rows)
    away = [abs((row.actual or 0) - (row.target or 0)) for row in over.rows]
    assert away == sorted(away, reverse=True)


def test_days_are_consecutive_complete_days(sample_grid: None) -> None:
    actor = as_person(User.objects.get(username="admin"))
    for days in (1, 3, 12):
        rows = ask(f"who is over target for {days} days", actor).rows
        assert rows
        assert all(row.n_days >= days and row.since is not None for row in rows)
    blocking = ask("who is over for 3 days and blocks others", actor)
    assert {row.name for row in blocking.rows} <= {row.name for row in ask("who is over for 3 days", actor).rows}
    assert ask("who is over target for 366 days", actor).key == "none_off"


def test_a_user_without_visibility_gets_no_numbers(closed_grid: Grid) -> None:
    assert ask("who is over target", as_person(User.objects.create_user("guest"))).key == "not_shown"


# --- What changed -----------------------------------------------------------------------------------------------------
def test_changes_of_a_subtree_are_those_affecting_it(open_grid: Grid) -> None:
    actor = as_person(open_grid.admin)
    for entry, reason in (("/atlas/bob", "Bob gets more."), ("/cms", "Fewer for CMS.")):
        operation = {"op": "set_shares", "entry": entry, "shares": 7}
        made = make_change_set(
            policy_slug=SLUG, new=NewChangeSet(operations=[operation], reason=reason), at=open_grid.at, actor=actor
        )
        publish_change_set(id=made.pk, version=made.version, at=open_grid.at, actor=actor)
    head = Policy.objects.get().head_number
    assert [event.revision for event in ask("what changed today", actor).events] == [head, head - 1]
    assert [event.reason for event in ask("what changed today in atlas", actor).events] == ["Bob gets more."]
    assert [event.revision for event in ask("what changed today in cms", actor).events] == [head]
    assert ask("what changed today in biomed", actor).key == "unchanged"
    assert Revision.objects.count() == head


def test_changes_of_hidden_entries_below_do_not_count(closed_grid: Grid) -> None:
    actor = as_person(closed_grid.admin)
    operation = {"op": "set_shares", "entry": "/atlas/bob", "shares": 7}
    made = make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=[operation], reason="Bob."), at=closed_grid.at, actor=actor
    )
    publish_change_set(id=made.pk, version=made.version, at=closed_grid.at, actor=actor)
    assert ask("what changed today in atlas", actor).key == "changed"
    assert ask("what changed today in atlas", as_person(closed_grid.alice)).key == "unchanged"


# --- When -------------------------------------------------------------------------------------------------------------
def test_when_questions_use_the_forecast(sample_grid: None) -> None:
    actor = as_person(User.objects.get(username="admin"))
    for row in ask("who is over target", actor).rows[:2]:
        answer = ask(f"when is {row.name} on target", actor)
        assert answer.key.startswith("forecast.")
        assert row.name in answer.sentence
        assert [each.actual for each in answer.rows] == pytest.approx([row.actual])


def test_a_viewer_of_totals_gets_no_answer_about_one_user(closed_grid: Grid) -> None:
    user = User.objects.create_user("vera")
    make_grant(user, closed_grid.uid("/atlas"), "viewer", at=closed_grid.at)
    answer = ask("when is atlas on target", as_person(user))
    assert answer.key == "not_shown"
    assert not answer.rows


# --- What can't be read -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("who", ["admin", "alice", "guest"])
def test_an_unknown_question_gets_three_suggestions(closed_grid: Grid, who: str) -> None:
    User.objects.get_or_create(username="guest")
    actor = as_person(User.objects.get(username=who))
    answer = ask("how is the weather?", actor)
    assert answer.key == "unreadable"
    assert len(answer.examples) == 3
    for example in answer.examples:
        assert not isinstance(read_question(example), Unreadable | None), example
        assert ask(example, actor).key not in ("unreadable", "nobody"), example
