"""The review of a change set: layers, checks, decision, conflicts and what people say, as pages without scripts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.pages.changes.drafts import settings_form
from apps.policies import services
from apps.policies.changesets import drafts, lifecycle
from apps.policies.files import import_export
from apps.policies.files.import_export import FileImport
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.settings import PolicySettings
from apps.priorities import change_effect_runs
from apps.runs.services import work_run_now
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, names_in, read
from tests.pages.page import text_of as text
from tests.sign_in import sign_in

AT = datetime(2026, 11, 20, 12, 4, tzinfo=UTC)
MORE = {"op": "set_shares", "entry": "/atlas/alice", "shares": 9}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


def authority(grid: Grid, name: str, path: str = "/atlas", role: str = "manager") -> User:
    user = User.objects.create_user(name)
    make_grant(user, grid.uid(path), role, at=AT)
    return user


@pytest.fixture
def bob(grid: Grid) -> User:
    return authority(grid, "bob")


@pytest.fixture
def bess(grid: Grid) -> User:
    return authority(grid, "bess")


def drafted(user: User, *operations: dict[str, Any], reason: str = "More for Alice.") -> ChangeSet:
    actor = Actor(user=user, via="page")
    return services.make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=operations, reason=reason), at=AT, actor=actor
    )


def proposed(user: User, *operations: dict[str, Any]) -> ChangeSet:
    draft = drafted(user, *operations)
    return services.propose_change_set(id=draft.pk, version=draft.version, at=AT, actor=Actor(user=user, via="page"))


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


def decide(client: Client, change_set: ChangeSet, step: str, **more: str) -> Any:
    data = {"step": step, "version": str(change_set.version), **more}
    return client.post(f"/changes/{change_set.pk}/decide/", data)


def state_of(page: Page, check: str) -> list[str]:
    """The state of a check, where it is listed."""
    return page.each(f"[data-check={check}]", "data-state")


def guard(**limits: float) -> None:
    services.change_settings(policy_slug=SLUG, settings={"review": limits}, reason="Four eyes.", at=AT, actor=COMMAND)


def test_the_three_layers_are_on_two_tabs(grid: Grid, bob: User) -> None:
    change_set = proposed(bob, MORE)
    client = signed_in(bob)
    answer = client.get(f"/changes/{change_set.pk}/")
    diff = read(answer)
    assert diff.text("h1") == "alice 1 → 9 shares"
    assert diff.text("[data-testid=reason]") == "More for Alice."
    assert names_in(diff.text("#diff [data-key=set_shares] th b"), "alice", "9")
    assert [row["line"].name for row in answer.context["effective"]] == ["bob"]
    assert diff.texts("[aria-labelledby=shifts] tbody th b, [aria-labelledby=shifts] tbody th a") == ["bob"]
    answer = client.get(f"/changes/{change_set.pk}/effect/")
    effect = read(answer)
    assert any("+40.0" in row for row in effect.texts("#effect tbody tr"))
    reasons = {row["line"].name: row["line"].reason for row in answer.context["leaves"]}
    assert (reasons["alice"], reasons["bob"]) == ("own_shares", "diluted")
    assert set(effect.values("data-key", "table.later")) >= {"own_shares", "diluted"}
    assert list(answer.context["days"]) == [1, 7, 30]
    heads = effect.texts("table.later thead th")[3:6]
    assert [re.findall(r"\d+", head) for head in heads] == [["1"], ["7"], ["30"]]
    raw = client.get(f"/changes/{change_set.pk}/operations.json")
    assert json.loads(raw.content)[0]["shares"] == 9


def fact(page: Page, key: str) -> list[int]:
    """The whole numbers of one fact of the summary card."""
    return [int(n) for n in re.findall(r"\d+", page.text(f"dl.kpis [data-fact={key}] dd"))]


def test_one_percentage_is_one_edit_and_the_review_lists_diluted_siblings(grid: Grid) -> None:
    change = drafted(grid.admin, {"op": "set_shares", "entry": "/cms", "shares": {"percent": 20}})
    page = read(signed_in(grid.admin).get(f"/changes/{change.pk}/"))
    assert fact(page, "edits") == [1, 2]
    assert page.each("[data-diluted]", "data-diluted") == ["2"]
    assert len(page.all("#diff tr[data-change]")) == 1


def test_rewriting_siblings_is_an_edit_of_each(grid: Grid) -> None:
    shares = {"percent": 20, "from": "siblings"}
    change = drafted(grid.admin, {"op": "set_shares", "entry": "/cms", "shares": shares})
    page = read(signed_in(grid.admin).get(f"/changes/{change.pk}/"))
    assert fact(page, "edits") == [3, 0]
    shown = page.texts("#diff tr[data-change] th b")
    named = [names_in(*each) for each in zip(shown, ("cms", "atlas", "biomed"), strict=True)]
    assert named == [True, True, True]
    for tab in ("effect", "checks", "discussion"):
        assert signed_in(grid.admin).get(f"/changes/{change.pk}/{tab}/").status_code == 200


def test_the_summary_and_the_bars_count_the_same_rank_changes(grid: Grid) -> None:
    change = drafted(grid.admin, {"op": "set_shares", "entry": "/atlas/alice", "shares": 90})
    page = read(signed_in(grid.admin).get(f"/changes/{change.pk}/effect/"))
    bars = [int(text(row.css("td")[-1])) for row in page.all("table.how-far tbody tr")]
    assert fact(page, "ranks") == [sum(bars) - bars[3], sum(bars)]
    assert sum(bars) > bars[3] > 0


def test_a_move_is_one_line_with_old_and_new_parent(grid: Grid) -> None:
    change_set = drafted(grid.admin, {"op": "move", "entry": "/cms/dave", "parent": "/biomed"})
    page = read(signed_in(grid.admin).get(f"/changes/{change_set.pk}/"))
    assert names_in(page.text("#diff tr[data-key=move] th b"), "dave", "biomed")
    assert page.texts("#diff tr[data-key=move] td.num")[:2] == ["cms", "biomed"]
    assert len(page.all("#diff tr[data-key]")) == 1
    assert len(change_set.operations) == 1


def test_a_new_algorithm_is_shown_as_ranks_under_both(grid: Grid) -> None:
    change_set = drafted(grid.admin, {"op": "set_policy", "settings": {"algorithm": {"name": "slurm-fair-tree"}}})
    answer = signed_in(grid.admin).get(f"/changes/{change_set.pk}/effect/")
    page = read(answer)
    assert ("aequus", "slurm-fair-tree") in [row[1:] for row in answer.context["changed_settings"]]
    assert {"aequus", "slurm-fair-tree"} <= set(page.texts("[aria-labelledby=settings] tbody td"))
    assert answer.context["effect"].state == "ready"
    assert page.has("#ranks")


def test_a_second_person_approves_and_the_author_publishes(grid: Grid, bob: User, bess: User) -> None:
    guard(points=5)
    change_set = proposed(bob, MORE)
    author, second = signed_in(bob), signed_in(bess)
    page = read(author.get(f"/changes/{change_set.pk}/"))
    assert state_of(page, "size") == ["block"]
    assert not page.has("#decide-publish")
    refused = decide(author, change_set, "publish")
    assert read(refused, 409).one("#refusal").attributes["data-code"] == "needs_approval"
    assert decide(author, change_set, "approve").status_code == 403
    assert read(second.get(f"/changes/{change_set.pk}/")).has("#approve")
    assert not page.has("#approve")
    assert decide(second, change_set, "approve", text="Fine.").status_code == 303
    change_set.refresh_from_db()
    assert read(author.get(f"/changes/{change_set.pk}/")).has("#decide-publish")
    checks = read(author.get(f"/changes/{change_set.pk}/checks/"))
    assert state_of(checks, "size") == ["ok"]
    assert names_in(checks.text("[data-check=size]"), "bess")
    assert decide(author, change_set, "publish").status_code == 303
    done = read(author.get(f"/changes/{change_set.pk}/")).item("decided").attributes
    assert (done["data-state"], done["data-value"]) == ("published", "4")


def test_requesting_changes_needs_a_comment(grid: Grid, bob: User, bess: User) -> None:
    change_set = proposed(bob, MORE)
    second = signed_in(bess)
    assert read(decide(second, change_set, "request-changes"), 422).error_codes() == ["text_missing"]
    sent = decide(second, change_set, "request-changes", text="Too <b>much</b>.")
    assert (sent.status_code, second.get(sent["Location"]).status_code) == (303, 200)
    page = signed_in(bob).get(f"/changes/{change_set.pk}/discussion/").content.decode()
    assert "Too &lt;b&gt;much&lt;/b&gt;." in page
    change_set.refresh_from_db()
    assert change_set.state == ChangeSet.State.DRAFT


def test_a_stale_review_page_decides_nothing_and_keeps_the_input(grid: Grid, bob: User, bess: User) -> None:
    change_set = proposed(bob, MORE)
    decide(signed_in(bob), change_set, "withdraw")
    other = proposed(bob, MORE)
    services.update_change_set(
        id=other.pk,
        version=other.version,
        edit=ChangeSetEdit(operations=[{**MORE, "shares": 99}]),
        at=AT,
        actor=Actor(user=bob, via="page"),
    )
    stale = decide(signed_in(bob), other, "propose", text="Kept words")
    assert stale.status_code == 412
    assert "Kept words" in stale.content.decode()


def test_scheduled_publication_shows_both_times_and_can_happen_now(grid: Grid, bob: User, settings: Any) -> None:
    change_set = drafted(bob, MORE)
    client = signed_in(bob)
    htmx = {"HX-Request": "true"}
    answer = read(client.get(f"/changes/{change_set.pk}/_instant?effective_at=2027-01-01T08:00", headers=htmx))
    assert "2027-01-01 08:00 UTC" in answer.text("#instant")
    assert not answer.has("[data-testid=is-past]")
    past = client.get(f"/changes/{change_set.pk}/_instant?effective_at=2020-01-01T08:00", headers=htmx)
    assert read(past).has("[data-testid=is-past]")
    assert read(decide(client, change_set, "schedule", effective_at="soon"), 422).error_codes() == ["no_time"]
    wrong = decide(client, change_set, "schedule", effective_at="2020-01-01T08:00")
    assert read(wrong, 422).error_codes() == ["invalid"]
    assert decide(client, change_set, "schedule", effective_at="2027-01-01T08:00").status_code == 303
    assert "2027-01-01 08:00 UTC" in read(client.get(f"/changes/{change_set.pk}/")).text("[data-testid=scheduled]")
    change_set.refresh_from_db()
    assert decide(client, change_set, "publish").status_code == 303
    change_set.refresh_from_db()
    assert (change_set.state, change_set.effective_at) == (ChangeSet.State.PUBLISHED, None)


def test_conflicts_are_resolved_one_by_one(grid: Grid, bob: User) -> None:
    change_set = drafted(bob, MORE, {"op": "set_shares", "entry": "/atlas/bob", "shares": 5})
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas/alice"), shares=4, reason="Meanwhile.", at=AT, actor=COMMAND
    )
    client = signed_in(bob)
    page = read(client.get(f"/changes/{change_set.pk}/"))
    assert page.item("conflicts").attributes["data-value"] == "1"
    assert not page.has("#decide-publish")
    assert decide(client, change_set, "publish").status_code == 409
    columns = read(client.get(f"/changes/{change_set.pk}/conflicts/"))
    assert columns.texts(".conflict .value") == ["1", "9", "4"], "base, mine, theirs"
    assert names_in(columns.text(".conflict .three div"), "2", "1"), "of revision 2"
    assert names_in(columns.text(".conflict label:has([value=mine])"), "9")
    assert names_in(columns.text(".conflict label:has([value=theirs])"), "4")
    url = f"/changes/{change_set.pk}/conflicts/"
    version = {"version": str(change_set.version)}
    assert client.post(url, version).status_code == 409
    key = f"choice-{grid.uid('/atlas/alice')}:shares"
    assert client.post(url, {**version, key: "theirs"}).status_code == 303
    change_set.refresh_from_db()
    assert [operation["shares"] for operation in change_set.operations] == [5]
    assert client.get(url).status_code == 303


def test_comments_are_shown_at_their_edit(grid: Grid, bob: User, bess: User) -> None:
    change_set = proposed(bob, MORE, {"op": "set_shares", "entry": "/atlas/bob", "shares": 5})
    client = signed_in(bess)
    url = f"/changes/{change_set.pk}/comment/"
    assert client.post(url, {"text": "  ", "on": "1"}).status_code == 422
    assert client.post(url, {"text": "Until when?", "on": "1"}).status_code == 303
    page = read(signed_in(bob).get(f"/changes/{change_set.pk}/discussion/?on=0"))
    assert page.text("[data-on='1'] .text") == "Until when?"
    assert names_in(page.text("[data-on='1'] .muted"), "bob", "5")
    fragment = client.post(url, {"text": "And why?"}, headers={"HX-Request": "true"})
    assert read(fragment).text("[data-on=''] .text") == "And why?"
    assert "<html" not in fragment.content.decode()


def test_changes_outside_the_view_are_only_counted(grid: Grid, bob: User) -> None:
    change_set = proposed(grid.admin, MORE)
    assert signed_in(bob).get(f"/changes/{change_set.pk}/").status_code == 200
    moved = drafted(bob, MORE)
    services.change_settings(policy_slug=SLUG, settings={"fallback_factor": 0.2}, reason="x", at=AT, actor=COMMAND)
    Grant.objects.filter(user=bob).update(entry_uid=grid.uid("/atlas/bob"))
    page = signed_in(bob).get(f"/changes/{moved.pk}/")
    assert "alice" not in read(page).text("body").replace("More for Alice", "")
    assert read(page).item("edits-outside").attributes["data-value"] == "1"
    assert signed_in(bob).get(f"/changes/{moved.pk}/operations.json").status_code == 404


def test_an_invisible_change_set_is_not_found(grid: Grid, bob: User) -> None:
    change_set = drafted(bob, MORE)
    stranger = signed_in(authority(grid, "eve", "/cms"))
    parts = ("", "effect/", "checks/", "discussion/", "operations.json", "conflicts/")
    answers: list[Any] = [stranger.get(f"/changes/{change_set.pk}/{path}") for path in parts]
    for answer in (*answers, decide(stranger, change_set, "publish")):
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found"), answer.wsgi_request.path
    change_set.refresh_from_db()
    assert change_set.state == "draft"


def test_effects_of_a_large_policy_are_computed_on_request(
    grid: Grid, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    change_set = drafted(bob, MORE)
    client = signed_in(bob)
    page = read(client.get(f"/changes/{change_set.pk}/effect/"))
    assert page.has("#compute-effect")
    assert not page.has("table.later")
    assert client.post(f"/changes/{change_set.pk}/compute/").status_code == 303
    waiting = client.get(f"/changes/{change_set.pk}/effect/").content.decode()
    assert "data-poll" in waiting
    run = change_effect_runs.newest_run(change_set)
    assert run is not None
    work_run_now(run.pk)
    done = client.get(f"/changes/{change_set.pk}/effect/").content.decode()
    assert "data-poll" not in done
    assert "own_shares" in Page(done).values("data-key", "table.later")


def test_lists_contain_the_announced_change_sets(grid: Grid, bob: User, bess: User) -> None:
    mine, asked = drafted(bob, MORE, reason="Mine alone"), proposed(bob, {**MORE, "shares": 7})
    lifecycle.comment_on(id=asked.pk, text="x", at=AT, actor=Actor(user=bob, via="page"))
    url = f"/policy/{SLUG}/changes/"

    def listed(user: User, which: str) -> set[int]:
        page = signed_in(user).get(url, {"list": which}).content.decode()
        return {int(found) for found in re.findall(r'href="/changes/(\d+)/"', page)}

    assert listed(bob, "open") == {mine.pk, asked.pk}
    assert listed(bob, "mine") == {mine.pk, asked.pk}
    assert listed(bob, "waiting") == set()
    assert listed(bess, "open") == listed(bess, "waiting") == {asked.pk}
    assert listed(bess, "mine") == set()
    published = signed_in(bess).get(url, {"list": "published", "q": "x"})
    assert (published.status_code, published["Location"]) == (301, f"/policy/{SLUG}/history/?q=x")
    part = signed_in(bess).get(f"{url}_rows?list=waiting", headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert "<html" not in part.content.decode()


def test_a_failed_scheduled_publication_names_the_reason(grid: Grid, bob: User) -> None:
    change_set = drafted(bob, MORE)
    decide(signed_in(bob), change_set, "schedule", effective_at="2026-11-21T08:00")
    Grant.objects.filter(user=bob).update(verbs=["view_aggregate", "edit_shares"])
    lifecycle.publish_due(at=AT + timedelta(days=2))
    answer = signed_in(bob).get(f"/changes/{change_set.pk}/")
    assert answer.context["change_set"].held_for in read(answer).text("[data-testid=was-due]")


def test_every_kind_of_change_set_can_be_read(grid: Grid) -> None:
    client = signed_in(grid.admin)
    found = list(ChangeSet.objects.values_list("pk", flat=True))
    assert len(found) == 2
    for pk in found:
        for tab in ("", "effect/", "checks/", "discussion/"):
            assert client.get(f"/changes/{pk}/{tab}").status_code == 200


def test_the_limit_for_second_approval_is_set_in_a_draft(grid: Grid) -> None:
    client = signed_in(grid.admin)
    draft = drafts.open_draft(policy_slug=SLUG, at=AT, actor=Actor(user=grid.admin, via="page"))
    typed = settings_form.typed(PolicySettings()) | {"review_points": "5", "review_users": "100"}
    url = f"/changes/{draft.pk}/edit/settings/"
    wrong = client.post(url, {**typed, "review_points": "500", "version": draft.version})
    assert wrong.status_code == 422
    assert client.post(url, {**typed, "version": draft.version}).status_code == 303
    draft.refresh_from_db()
    wanted = {"op": "set_policy", "settings": {"review": {"points": 5.0, "users": 100}}}
    assert draft.operations[-1] == wanted
    rows = read(client.get(f"/changes/{draft.pk}/")).all("#diff tr[data-key=set_policy]")
    assert [text(row.css("td")[1]) for row in rows] == ["5", "100"], "what is to be"


def test_a_comment_stays_with_its_edit_when_another_is_removed(grid: Grid, bob: User) -> None:
    actor = Actor(user=bob, via="page")
    draft = drafted(bob, MORE, {"op": "set_shares", "entry": "/atlas/bob", "shares": 5})
    lifecycle.comment_on(id=draft.pk, text="This one.", operation=1, at=AT, actor=actor)
    drafts.drop_operation(id=draft.pk, version=draft.version, index=0, at=AT, actor=actor)
    assert [comment.operation for comment in draft.comments.all()] == [0]


def test_a_published_change_is_shown_against_its_predecessor(grid: Grid, bob: User) -> None:
    change_set = drafted(bob, MORE)
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas/bob"), shares=3, reason="Meanwhile.", at=AT, actor=COMMAND
    )
    client = signed_in(bob)
    assert decide(client, change_set, "publish").status_code == 303
    effect = read(client.get(f"/changes/{change_set.pk}/effect/"))
    assert any("+50.0" in row for row in effect.texts("#effect tbody tr"))  # from 1 of 4 to 9 of 12, not from 1 of 2
    assert effect.has("[data-testid=ranks-decided]")
    assert not effect.has("#ranks")


def test_a_whole_tree_based_on_an_old_revision_is_not_published(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_export, "MOST_APPLIED_OPERATIONS", 0)
    actor = Actor(user=grid.admin, via="page")
    file = b"path,shares\n/atlas,50\n/biomed,30\n/cms,10\n"
    made = import_export.import_policy(
        file=FileImport(policy_slug=SLUG, format="csv", content=file), reason="All new.", at=AT, actor=actor
    )
    assert made.change_set is not None
    services.change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/cms"), shares=11, reason="Meanwhile.", at=AT, actor=COMMAND
    )
    client, here = signed_in(grid.admin), f"/changes/{made.change_set.pk}/"
    for page in ("", "effect/", "checks/", "discussion/", "conflicts/"):
        answer = client.get(f"{here}{page}", follow=True)
        assert answer.status_code == 200, page
    edit = client.get(f"{here}edit/")
    assert (edit.status_code, edit.context["refusal"].code) == (409, "whole")
    assert f"/changes/{made.change_set.pk}/edit/" not in client.get(here).content.decode()
    checks = read(client.get(f"{here}checks/"))
    assert state_of(checks, "base") == ["block", "block"], "in the tab and beside it"
    assert names_in(checks.text("#checks [data-check=base] p:first-of-type"), "3")
    sent = decide(client, made.change_set, "publish")
    assert read(sent, 409).one("#refusal").attributes["data-code"] == "stale_document"
    assert Policy.objects.get(slug=SLUG).head_number == 3


def test_a_skipped_local_time_is_refused_and_a_repeated_one_is_the_first(bob: User, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Stockholm"
    change_set, htmx = drafted(bob, MORE), {"HX-Request": "true"}
    client = signed_in(bob)
    with timezone.override(ZoneInfo("Europe/Stockholm")):
        where = f"/changes/{change_set.pk}/_instant?effective_at="
        skipped = read(client.get(f"{where}2027-03-28T02:30", headers=htmx)).text("[data-testid=is-skipped]")
        assert ("01:30" in skipped, "03:30" in skipped) == (True, True)
        repeated = read(client.get(f"{where}2027-10-31T02:30", headers=htmx))
        assert repeated.has("[data-testid=is-repeated]")
        assert "2027-10-31 00:30 UTC" in repeated.text("#instant")
        assert not read(client.get(f"{where}2027-10-31T03:30", headers=htmx)).has("[data-testid=is-repeated]")
        refused = decide(client, change_set, "schedule", effective_at="2027-03-28T02:30")
    assert read(refused, 422).error_codes() == ["nonexistent_time"]
