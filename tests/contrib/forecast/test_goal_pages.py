"""The page of a goal: options beside each other, one of them as a draft, and a clear answer to what can't be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.forecast.goals.selectors import get_solution, read_goal
from apps.core import clock
from apps.policies.changesets.drafts import add_operations, open_draft
from apps.policies.models import ChangeSet
from apps.policies.publishing.direct import publish_operations
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    cache.clear()
    return open_grid


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def _url(grid: Grid, path: str = "/biomed") -> str:
    return reverse("pages:draft-goal", kwargs={"policy": SLUG, "uid": grid.uid(path)})


def _in(grid: Grid, days: int) -> str:
    return (grid.at + timedelta(days=days)).date().isoformat()


def _levers(page: Page) -> list[str]:
    return [node.attributes["data-lever"] or "" for node in page.items("option")]


def test_nothing_is_solved_before_a_goal_is_entered(admin: Client, grid: Grid) -> None:
    page = read(admin.get(_url(grid)))
    assert page.one("#id_by").attributes["value"] == _in(grid, 21)
    assert not page.has("#solution")


def test_options_list_their_givers_and_become_a_draft(admin: Client, grid: Grid) -> None:
    asked = {"by": _in(grid, 7), "most_lost": "30"}
    page = read(admin.get(_url(grid), asked))
    assert page.one("#solution").attributes["data-possible"] == "yes"
    assert {"shares", "refund"} <= set(_levers(page))
    assert "/atlas" in page.texts('[data-lever="shares"] tbody th')
    answer = admin.post(_url(grid), {**asked, "lever": "shares"})
    draft = ChangeSet.objects.get(state=ChangeSet.State.DRAFT)
    assert (answer.status_code, answer["Location"]) == (
        303,
        f"{reverse('pages:draft', kwargs={'change_set': draft.pk})}?entry={grid.uid('/biomed')}",
    )
    (operation,) = draft.operations
    assert operation["entry"] == str(grid.uid("/biomed"))
    publish_operations(
        policy_slug=SLUG,
        operations=draft.operations,
        reason="goal",
        at=clock.now(),
        actor=Actor(user=grid.admin, via="page"),
    )
    grid.recompute()
    cache.clear()
    after = read(admin.get(_url(grid), asked))
    assert after.one("#solution").attributes["data-possible"] == "yes"
    assert not _levers(after), "published, the goal is reached without another change"


def test_an_option_is_added_to_the_draft_from_whose_editor_the_goal_was_asked(admin: Client, grid: Grid) -> None:
    actor = Actor(user=grid.admin, via="page")
    draft = open_draft(policy_slug=SLUG, at=clock.now(), actor=actor)
    rename = {"op": "rename", "entry": str(grid.uid("/cms")), "name": "cms-2"}
    draft = add_operations(id=draft.pk, version=draft.version, operations=[rename], at=clock.now(), actor=actor)
    editor = read(admin.get(f"/changes/{draft.pk}/edit/", {"entry": str(grid.uid("/biomed"))}))
    (link,) = editor.each("#panel a[href*='/edit/goal/']", "href")
    assert link == f"{_url(grid)}?draft={draft.pk}"
    asked = {"by": _in(grid, 7), "most_lost": "30", "draft": str(draft.pk)}
    page = read(admin.get(_url(grid), asked))
    assert page.has('[data-testid="not-counted"]'), "the edits that the draft has aren't part of the answer"
    assert set(page.each("#solution form [name=draft]", "value")) == {str(draft.pk)}
    assert admin.post(_url(grid), {**asked, "lever": "shares"}).status_code == 303
    (only,) = ChangeSet.objects.filter(state=ChangeSet.State.DRAFT)
    assert [each["op"] for each in only.operations] == ["rename", "set_shares"]


@pytest.mark.parametrize("draft", ["0", "999999999", "-1", "x", "9" * 30])
def test_an_option_of_a_draft_that_is_gone_becomes_a_new_one(admin: Client, grid: Grid, draft: str) -> None:
    asked = {"by": _in(grid, 7), "most_lost": "30", "draft": draft}
    assert not read(admin.get(_url(grid), asked)).has("[name=draft]")
    assert admin.post(_url(grid), {**asked, "lever": "shares"}).status_code == 303
    assert ChangeSet.objects.get(state=ChangeSet.State.DRAFT).operations[0]["op"] == "set_shares"


def test_a_draft_of_another_person_gets_nothing(admin: Client, grid: Grid) -> None:
    manager = User.objects.create_superuser("mona")
    other = open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=manager, via="page"))
    admin.post(_url(grid), {"by": _in(grid, 7), "most_lost": "30", "draft": str(other.pk), "lever": "shares"})
    other.refresh_from_db()
    assert other.operations == []
    assert ChangeSet.objects.filter(author=grid.admin, state=ChangeSet.State.DRAFT).count() == 1


def test_an_impossible_goal_shows_the_closest_option(admin: Client, grid: Grid) -> None:
    page = read(admin.get(_url(grid), {"by": _in(grid, 7), "most_lost": "0.5"}))
    assert page.one("#solution").attributes["data-possible"] == "no"
    assert len(_levers(page)) == 1
    assert not page.has("#solution form"), "the closest one isn't offered as a draft"
    answer = admin.post(_url(grid), {"by": _in(grid, 7), "most_lost": "0.5", "lever": "shares"})
    assert (answer.status_code, read(answer, 409).error_codes()) == (409, ["no_option"])
    assert not ChangeSet.objects.filter(state=ChangeSet.State.DRAFT).exists()


@pytest.mark.parametrize(
    ("path", "asked", "status", "code"),
    [
        ("/biomed", {"by": "2020-01-01"}, 422, "past"),
        ("/biomed", {"by": "soon"}, 400, "by"),
        ("/biomed", {"by": "+7", "most_lost": "-1"}, 400, "most_lost"),
        ("/biomed", {"by": "+7", "most_lost": "NaN"}, 400, "most_lost"),
        ("/biomed", {"by": "+7", "least_target": "50", "most_target": "40"}, 422, "least_target"),
        ("/biomed", {"by": "+900"}, 400, "by"),
        ("/cms", {"by": "+7"}, 422, "no_demand"),
        ("/", {"by": "+7"}, 422, "no_target"),
    ],
)
def test_bad_goals_get_a_clear_answer(
    admin: Client, grid: Grid, path: str, asked: dict[str, str], status: int, code: str
) -> None:
    if asked["by"].startswith("+"):
        asked = {**asked, "by": _in(grid, int(asked["by"]))}
    answer = admin.get(_url(grid, path), asked)
    page = read(answer, status)
    assert answer.status_code == status
    assert page.has(f"#id_{code}_error") or page.error_codes() == [code] or page.has("#id_by_error")


def test_an_inherited_share_has_no_target_of_its_own(admin: Client, grid: Grid) -> None:
    operation = {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": "parent"}
    publish_operations(
        policy_slug=SLUG,
        operations=[operation],
        reason="test",
        at=clock.now(),
        actor=Actor(user=grid.admin, via="page"),
    )
    late = admin.get(_url(grid, "/biomed"), {"by": _in(grid, 7)})
    assert read(late, 409).error_codes() == ["not_current"], "the newest revision isn't computed yet"
    grid.recompute()
    answer = admin.get(_url(grid, "/atlas"), {"by": _in(grid, 7)})
    assert read(answer, 422).error_codes() == ["inherits"]


def test_without_access_to_competitor_usage_there_is_no_answer(closed_grid: Grid, client: Client) -> None:
    """Alice sees her own way alone."""
    cache.clear()
    sign_in(client, closed_grid.alice)
    answer = client.get(_url(closed_grid, "/atlas"), {"by": _in(closed_grid, 7)})
    assert answer.status_code in {403, 404}
    assert b"biomed" not in answer.content


def test_the_same_goal_has_the_same_answer(grid: Grid) -> None:
    actor = Actor(user=grid.admin, via="page")
    goal = read_goal({"by": _in(grid, 7), "most_lost": "30"}, entry=grid.uid("/biomed"), today=grid.at.date())
    found: list[Any] = []
    for _ in range(2):
        cache.clear()
        solution = get_solution(policy_slug=SLUG, goal=goal, actor=actor)
        found.append([(one.lever, one.operations, one.most_lost_points) for one in solution.options])
    assert found[0] == found[1]


def test_a_reader_sees_options_without_a_button(grid: Grid, client: Client) -> None:
    sign_in(client, User.objects.create_user("rita", "", "correct horse battery"))
    asked = {"by": _in(grid, 7), "most_lost": "30"}
    page = read(client.get(_url(grid), asked))
    assert page.items("option")
    assert not page.has("#solution form")
    assert client.post(_url(grid), {**asked, "lever": "shares"}).status_code == 403
