"""Who may do what, and why, on pages; roles given, changed, extended and ended by forms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from apps import clock
from apps.accounts.models import User
from apps.policies.delegation import tag_of
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from tests.dashboard.grid import SLUG, Grid, make_grid

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
PAGE = f"/policy/{SLUG}/access/"
GIVE = f"{PAGE}give/"


@pytest.fixture
def grid(db: None) -> Grid:
    return make_grid(clock.now(), visibility="path")


@pytest.fixture
def maria(grid: Grid) -> User:
    """Manager of /atlas for three years."""
    maria = User.objects.create_user("maria", first_name="Maria", last_name="Hedin")
    make_grant(grid, maria, "/atlas", "manager", days=3 * 365, reason="authority of atlas")
    return maria


def make_grant(grid: Grid, who: User | None, path: str, role: str, *, days: int | None = None, **more: Any) -> Grant:
    ends = None if days is None else grid.at + timedelta(days=days)
    return Grant.objects.create(
        policy=Policy.objects.get(slug=SLUG), entry_uid=grid.uid(path), user=who, role=role, created_at=grid.at,
        verbs=list(VERBS_OF_ROLE[role]), expires_at=ends, **more,
    )  # fmt: skip


def page_of(user: User, path: str = PAGE, **headers: str) -> Any:
    client = Client()
    client.force_login(user)
    return client.get(path, headers=headers)


def send(user: User, path: str, **fields: Any) -> Any:
    client = Client()
    client.force_login(user)
    return client.post(path, fields)


def filled(**fields: Any) -> dict[str, Any]:
    given = {
        "person": "alice",
        "people": "",
        "entry": "/atlas",
        "role": "lead",
        "reason": "leads now",
        "ends_on": "2099-01-31",
    }
    return given | {"ends_on": (clock.now() + timedelta(days=90)).date().isoformat()} | fields


def test_the_page_lists_grants_with_reason_and_end_and_says_what_ends_soon(grid: Grid, maria: User) -> None:
    make_grant(grid, grid.alice, "/atlas/alice", "viewer", days=9, reason="for a while", granted_by=maria)
    make_grant(grid, None, "/biomed", "viewer", people="oidc:biomed", reason="all of them")
    html = page_of(grid.admin).content.decode()
    for words in ("Maria Hedin", "authority of atlas", "oidc:biomed", "all of them", "One ends within 60 days"):
        assert words in html
    assert "Extend it by a year" in html


def test_a_manager_sees_what_belongs_to_the_own_part_and_others_see_their_own(grid: Grid, maria: User) -> None:
    make_grant(grid, grid.alice, "/atlas/alice", "viewer", reason="for alice")
    make_grant(grid, None, "/biomed", "viewer", people="oidc:biomed", reason="all of biomed")
    html = page_of(maria).content.decode()
    assert "for alice" in html
    assert "all of biomed" not in html
    assert "for alice" in page_of(grid.alice).content.decode()
    stranger = page_of(User.objects.create_user("stranger"))
    assert stranger.status_code == 200
    assert "for alice" not in stranger.content.decode()
    assert "Give a role" not in stranger.content.decode()


def test_the_list_is_filtered_by_name_role_and_end(grid: Grid, maria: User) -> None:
    make_grant(grid, grid.alice, "/atlas/alice", "viewer", days=9, reason="soon over")
    make_grant(grid, grid.alice, "/cms", "lead", reason="for long")
    for query, shown in (("q=CMS", "for long"), ("role=viewer", "soon over"), ("soon=1", "soon over")):
        answer = page_of(grid.admin, f"{PAGE}_grants?{query}", **HTMX)
        html = answer.content.decode()
        assert [words for words in ("for long", "soon over") if words in html] == [shown]
    assert "No grant fits the filter" in page_of(grid.admin, f"{PAGE}?q=nothing-like-it").content.decode()


def test_the_matrix_shows_people_against_entries(grid: Grid, maria: User) -> None:
    make_grant(grid, grid.alice, "/cms", "lead", reason="r")
    html = page_of(grid.admin, f"{PAGE}?view=matrix").content.decode()
    assert '<table class="matrix">' in html
    assert html.count("Allocation manager</a>") == 1


def test_what_somebody_may_do_is_told_with_the_way_it_came(grid: Grid, maria: User) -> None:
    html = page_of(grid.admin, f"{PAGE}_why?person=maria&entry=/atlas/alice", **HTMX).content.decode()
    assert "Maria Hedin may divide alice and put it in force." in html
    assert "The share of alice itself is theirs to decide as well, from above." in html
    assert "authority of atlas" in html
    html = page_of(grid.admin, f"{PAGE}_why?person=maria&entry=/atlas", **HTMX).content.decode()
    whole = Policy.objects.get(slug=SLUG).name
    assert f"The share of atlas itself is not theirs to change: that belongs to {whole}." in html
    assert "sees nothing of" in page_of(grid.admin, f"{PAGE}_why?person=maria&entry=/cms", **HTMX).content.decode()
    assert "is an administrator" in page_of(grid.admin, PAGE).content.decode()


def test_who_may_not_ask_is_told_so_without_names(grid: Grid, maria: User) -> None:
    answer = page_of(maria, f"{PAGE}_why?person=admin&entry=/cms", **HTMX)
    assert answer.status_code == 422
    assert "There is no entry /cms" in answer.content.decode()
    assert page_of(grid.alice, f"{PAGE}_why?person=maria&entry=/atlas", **HTMX).status_code == 422


def test_a_right_through_a_group_names_the_group(grid: Grid) -> None:
    grid.alice.groups.add(Group.objects.create(name="ldap:cn=hpc"))
    make_grant(grid, None, "/cms", "lead", people="ldap:cn=hpc", reason="the team")
    html = page_of(grid.alice, f"{PAGE}?entry=/cms").content.decode()
    assert "by the group ldap:cn=hpc" in html


def test_fragments_opened_directly_lead_to_their_page(grid: Grid) -> None:
    for path, goal in ((f"{PAGE}_grants", PAGE), (f"{PAGE}_why", PAGE)):
        answer = page_of(grid.admin, path)
        assert (answer.status_code, answer["Location"]) == (303, goal)


def test_a_role_is_given_until_the_end_of_a_day(grid: Grid, maria: User) -> None:
    answer = send(maria, GIVE, **filled(ends_on="2099-01-31"))
    assert answer.status_code == 422  # longer than her own
    assert "Nobody gives a right for longer than they hold it" in answer.content.decode()
    day = (clock.now() + timedelta(days=90)).date()
    answer = send(maria, GIVE, **filled(ends_on=day.isoformat()))
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    grant = Grant.objects.get(user=grid.alice)
    assert (grant.granted_by, grant.reason, grant.verbs) == (
        maria,
        "leads now",
        list(VERBS_OF_ROLE["lead"]) and grant.verbs,
    )
    assert grant.expires_at is not None
    assert grant.expires_at.isoformat() == f"{day.isoformat()}T23:59:59+00:00"


def test_on_the_last_day_of_the_own_right_what_is_given_ends_with_it(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    assert own.expires_at is not None
    assert send(maria, GIVE, **filled(ends_on=own.expires_at.date().isoformat())).status_code == 303
    assert Grant.objects.get(user=grid.alice).expires_at == own.expires_at


def test_rights_may_be_chosen_singly_under_advanced(grid: Grid, maria: User) -> None:
    assert send(maria, GIVE, **filled(singly="on", verbs=["publish", "view_aggregate"])).status_code == 303
    assert Grant.objects.get(user=grid.alice).verbs == ["view_aggregate", "publish"]
    assert send(maria, GIVE, **filled(singly="on", verbs=[], role="viewer")).status_code == 422
    assert "adapted" in page_of(maria).content.decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"role": "admin"}, "Nobody gives more than they hold"),
        ({"person": "maria"}, "Nobody gives a role to themselves"),
        ({"person": "who-is-that"}, "is nobody who has signed in here"),
        ({"people": "oidc:x"}, "and not both"),
        ({"entry": "/cms"}, "There is no entry /cms"),
        ({"entry": "/"}, "You may not give roles at this entry"),
        ({"ends_on": ""}, "Say when it ends"),
        ({"reason": ""}, "required"),
        ({"ends_on": "2001-01-01"}, "must lie in the future"),
    ],
)
def test_a_form_that_gives_nothing_keeps_what_was_typed_and_says_why(
    grid: Grid, maria: User, wrong: dict[str, str], words: str
) -> None:
    answer = send(maria, GIVE, **filled(**wrong))
    assert answer.status_code == 422
    html = answer.content.decode()
    assert words in html
    assert answer.context["form"]["reason"].value() == wrong.get("reason", "leads now")
    assert not Grant.objects.filter(user=grid.alice).exists()


def test_the_form_is_for_those_who_may_give(grid: Grid, maria: User) -> None:
    shown = page_of(maria, f"{GIVE}?entry=/atlas")
    assert (shown.status_code, 'name="person"' in shown.content.decode()) == (200, True)
    for refused in (page_of(grid.alice, GIVE), send(grid.alice, GIVE, **filled())):
        assert (refused.status_code, refused.context["refusal"].code) == (403, "not_allowed")
    assert not Grant.objects.filter(user=grid.alice).exists()


def test_a_grant_is_changed_extended_and_ended_in_the_state_that_was_seen(grid: Grid, maria: User) -> None:
    grant = make_grant(grid, grid.alice, "/atlas", "lead", days=9, reason="r", granted_by=maria)
    where, seen = f"{PAGE}{grant.pk}/", tag_of(grant)
    ends = str(grant.expires_at)[:10]
    form = {"step": "change", "tag": seen, "role": "viewer", "reason": "less", "ends_on": ends}
    before = grant.expires_at
    assert send(maria, where, **form).status_code == 303
    grant.refresh_from_db()
    assert (grant.role, grant.reason, grant.expires_at) == ("viewer", "less", before)
    assert send(maria, where, **form).status_code == 412
    later = (grid.at + timedelta(days=400)).date().isoformat()
    assert send(maria, where, **form | {"tag": tag_of(grant), "ends_on": later}).status_code == 303
    grant.refresh_from_db()
    assert grant.expires_at is not None
    assert grant.expires_at.date().isoformat() == later
    assert send(maria, where, step="end", tag=seen).status_code == 412
    assert send(maria, where, step="end", tag=tag_of(grant), reason="over").status_code == 303
    assert not Grant.objects.filter(pk=grant.pk).exists()


def test_ones_own_grant_is_given_up_and_not_raised(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    where = f"{PAGE}{own.pk}/"
    assert "It is your own" in page_of(maria, where).content.decode()
    form = {"step": "change", "tag": tag_of(own), "role": "admin", "reason": "more", "no_end": "on"}
    answer = send(maria, where, **form)
    assert answer.status_code == 422
    assert "Nobody raises or lengthens their own grant" in answer.content.decode()
    assert send(maria, where, step="end", tag=tag_of(own)).status_code == 303


def test_what_rests_on_a_grant_is_named_before_it_ends(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    given = make_grant(grid, grid.alice, "/atlas/alice", "lead", days=20, reason="r", granted_by=maria)
    html = page_of(grid.admin, f"{PAGE}{own.pk}/").content.decode()
    assert "What they gave to others with it" in html
    send(grid.admin, f"{PAGE}{own.pk}/", step="end", tag=tag_of(own), given_on="keep")
    given.refresh_from_db()
    assert given.granted_by == grid.admin


def test_grants_that_end_soon_are_extended_together_within_ones_own_end(grid: Grid, maria: User) -> None:
    first = make_grant(grid, grid.alice, "/atlas", "lead", days=9, reason="r", granted_by=maria)
    other = make_grant(grid, grid.alice, "/cms", "lead", days=9, reason="r")
    answer = send(maria, f"{PAGE}extend/", grant=[str(first.pk), str(other.pk), "x"])
    assert answer.status_code == 303
    ends = {grant.pk: grant.expires_at for grant in Grant.objects.all()}
    assert ends[first.pk] == grid.at + timedelta(days=9 + 365)
    assert ends[other.pk] == grid.at + timedelta(days=9)


def test_a_grant_nobody_may_know_of_is_not_found(grid: Grid, maria: User) -> None:
    number = make_grant(grid, grid.alice, "/cms", "lead", reason="r").pk
    hidden, missing = (page_of(maria, f"{PAGE}{each}/") for each in (number, 99_999))
    assert hidden.status_code == missing.status_code == 404
    assert hidden.context["refusal"] == missing.context["refusal"]
    assert page_of(grid.admin, f"{PAGE}{number}/").status_code == 200


def test_an_entrys_page_tells_what_i_may_do_there(grid: Grid, maria: User) -> None:
    where = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/"
    html = page_of(maria, f"{where}_access", **HTMX).content.decode()
    assert "Maria Hedin may divide atlas and put it in force." in html
    assert f"{GIVE}?entry=/atlas" in html
    assert page_of(maria, f"{where}_access")["Location"] == where
    assert f"{where}_access" in page_of(maria, f"{where}atlas/").content.decode()
    assert page_of(maria, f"/policy/{SLUG}/n/{grid.uid('/cms')}/_access", **HTMX).status_code == 404
