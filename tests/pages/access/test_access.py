"""Who may do what, and why, on pages; roles given, changed, extended and ended by forms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import NON_FIELD_ERRORS
from django.test import Client

from apps.accounts.models import User
from apps.core import clock
from apps.policies.access.delegation import tag_of
from apps.policies.models import Grant, Policy
from tests.examples import first
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
PAGE = f"/policy/{SLUG}/access/"
ASSIGN = f"{PAGE}assign/"
# What each role may, written out here: the product's own table is what is tested.
_LEADS = {"view_aggregate", "view_members", "edit_shares", "map_accounts", "publish"}
_MANAGES = _LEADS | {"edit_structure", "approve", "delegate", "manage_usage"}
RIGHTS = {"viewer": {"view_aggregate"}, "lead": _LEADS, "manager": _MANAGES, "admin": _MANAGES | {"mount"}}


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


@pytest.fixture
def maria(grid: Grid) -> User:
    """Manager of /atlas for three years."""
    maria = User.objects.create_user("maria", first_name="Maria", last_name="Hedin")
    grant_role(grid, maria, "/atlas", "manager", days=3 * 365, reason="authority of atlas")
    return maria


def grant_role(grid: Grid, who: User | None, path: str, role: str, *, days: int | None = None, **more: Any) -> Grant:
    ends = None if days is None else grid.at + timedelta(days=days)
    return make_grant(who, grid.uid(path), role, at=grid.at, expires_at=ends, **more)


def page_of(user: User, path: str = PAGE, **headers: str) -> Any:
    client = sign_in(Client(), user)
    return client.get(path, headers=headers)


def send(user: User, path: str, **fields: Any) -> Any:
    client = sign_in(Client(), user)
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


def states_of(page: Page) -> dict[int, str]:
    """Numbers of the listed grants with their states."""
    return {
        int(row.attributes["data-grant"] or 0): row.attributes["data-state"] or "" for row in page.all("[data-grant]")
    }


def key_of(page: Page, testid: str) -> str:
    return page.item(testid).attributes["data-key"] or ""


def codes_of(form: Any) -> dict[str, list[str]]:
    """What a form refused, by field."""
    return {name: [error.code for error in errors] for name, errors in form.errors.as_data().items()}


def test_the_page_lists_grants_with_reason_and_end_and_marks_those_ending_soon(grid: Grid, maria: User) -> None:
    ends = grant_role(grid, grid.alice, "/atlas/alice", "viewer", days=9, reason="for a while", granted_by=maria)
    open_to = grant_role(grid, None, "/biomed", "viewer", people="oidc:biomed", reason="all of them")
    answer = page_of(grid.admin)
    page = read(answer)
    own = Grant.objects.get(user=maria)
    for grant, *words in (
        (own, "Maria Hedin", "authority of atlas", "atlas"),
        (ends, "Alice Berg", "for a while", "alice"),
        (open_to, "oidc:biomed", "all of them", "biomed"),
    ):
        row = page.text(f"[data-grant='{grant.pk}']")
        assert [each for each in words if each not in row] == []
    assert states_of(page) == {own.pk: "active", ends.pk: "ends_soon", open_to.pk: "active"}
    assert [row.line.grant.pk for row in answer.context["soon"]] == [ends.pk]
    assert page.text("#soon-title + .count") == "1"
    assert page.each(f"form[action='{PAGE}extend/'] [name=grant]", "value") == [str(ends.pk)]


def test_a_manager_sees_grants_of_the_own_subtree_and_others_see_their_own(grid: Grid, maria: User) -> None:
    grant_role(grid, grid.alice, "/atlas/alice", "viewer", reason="for alice")
    grant_role(grid, None, "/biomed", "viewer", people="oidc:biomed", reason="all of biomed")
    page = read(page_of(maria))
    assert "for alice" in page.text("#grants")
    assert "all of biomed" not in page.text("body")
    assert page.has(f"[href='{ASSIGN}']")
    assert "for alice" in read(page_of(grid.alice)).text("#grants")
    stranger = read(page_of(User.objects.create_user("stranger")))
    assert "for alice" not in stranger.text("body")
    assert not stranger.has(f"[href='{ASSIGN}']")
    assert stranger.item("no-grants").attributes["data-state"] == "none"


def test_the_list_is_filtered_by_name_role_and_end(grid: Grid, maria: User) -> None:
    soon = grant_role(grid, grid.alice, "/atlas/alice", "viewer", days=9, reason="soon over")
    long = grant_role(grid, grid.alice, "/cms", "lead", reason="for long")
    for query, shown in (("q=CMS", long), ("role=viewer", soon), ("soon=1", soon)):
        answer = page_of(grid.admin, f"{PAGE}_grants?{query}", **HTMX)
        assert list(states_of(read(answer))) == [shown.pk]
        assert answer.context["n_hidden"] == 2
    empty = read(page_of(grid.admin, f"{PAGE}?q=nothing-like-it"))
    assert empty.item("no-grants").attributes["data-state"] == "filtered"


def test_the_matrix_has_people_as_rows_and_entries_as_columns(grid: Grid, maria: User) -> None:
    grant_role(grid, grid.alice, "/cms", "lead", reason="r")
    page = read(page_of(grid.admin, f"{PAGE}?view=matrix"))
    assert page.texts("table.matrix thead th")[1:] == ["atlas", "cms"]
    assert sorted(page.texts("table.matrix .who")) == ["Alice Berg", "Maria Hedin"]
    assert sorted(page.values("data-role", "table.matrix")) == ["lead", "manager"]
    assert page.all("table.matrix a[data-role=manager]")[0].attributes["href"] == (
        f"{PAGE}{Grant.objects.get(user=maria).pk}/"
    )


def test_the_rights_of_a_person_are_listed_with_their_origin(grid: Grid, maria: User) -> None:
    def why(path: str) -> Page:
        return read(page_of(grid.admin, f"{PAGE}_why?person=maria&entry={path}", **HTMX))

    page = why("/atlas/alice")
    assert key_of(page, "verdict") == "divides_and_publishes"
    assert page.text("[data-testid=verdict]").count("Maria Hedin") == 1
    assert "alice" in page.text("[data-testid=verdict]")
    assert key_of(page, "own-share") == "own"
    assert "authority of atlas" in page.text(".chain")
    assert "atlas" in page.text("[data-verb=publish][data-state=held]")
    assert page.has("[data-verb=mount][data-state=not_held]")
    page = why("/atlas")
    assert (key_of(page, "verdict"), key_of(page, "own-share")) == ("divides_and_publishes", "of_parent")
    assert Policy.objects.get(slug=SLUG).name in page.text("[data-testid=own-share]")
    page = why("/cms")
    assert key_of(page, "verdict") == "sees_nothing"
    assert not page.has("[data-testid=own-share]")
    assert not page.has("[data-verb][data-state=held]")
    assert key_of(read(page_of(grid.admin)), "verdict") == "admin"


def test_a_refused_rights_check_names_no_one(grid: Grid, maria: User) -> None:
    page = read(page_of(maria, f"{PAGE}_why?person=admin&entry=/cms", **HTMX), 422)
    assert page.error_codes() == ["invalid"]
    assert not page.has("[data-testid=verdict]")
    assert "admin" not in page.text("#why")
    page = read(page_of(grid.alice, f"{PAGE}_why?person=maria&entry=/atlas", **HTMX), 422)
    assert page.error_codes() == ["not_allowed"]
    assert "aria" not in page.text("#why")


def test_a_right_through_a_group_names_the_group(grid: Grid) -> None:
    grid.alice.groups.add(Group.objects.create(name="ldap:cn=hpc"))
    grant_role(grid, None, "/cms", "lead", people="ldap:cn=hpc", reason="the team")
    page = read(page_of(grid.alice, f"{PAGE}?entry=/cms"))
    assert "ldap:cn=hpc" in page.text("[data-verb=publish][data-state=held]")


def test_fragments_opened_directly_lead_to_their_page(grid: Grid) -> None:
    for path, goal in ((f"{PAGE}_grants", PAGE), (f"{PAGE}_why", PAGE)):
        answer = page_of(grid.admin, path)
        assert (answer.status_code, answer["Location"]) == (303, goal)


def test_a_role_is_assigned_until_the_end_of_a_day(grid: Grid, maria: User) -> None:
    answer = send(maria, ASSIGN, **filled(ends_on="2099-01-31"))
    assert answer.status_code == 422
    assert answer.context["form"].has_error(NON_FIELD_ERRORS, code="longer_than_own")
    day = (clock.now() + timedelta(days=90)).date()
    answer = send(maria, ASSIGN, **filled(ends_on=day.isoformat()))
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    grant = Grant.objects.get(user=grid.alice)
    assert (grant.granted_by, grant.reason, grant.role) == (maria, "leads now", "lead")
    assert grant.expires_at is not None
    assert grant.expires_at.isoformat() == f"{day.isoformat()}T23:59:59+00:00"


@pytest.mark.parametrize("role", RIGHTS)
def test_a_role_ignores_the_single_rights_ticked_below_it(grid: Grid, maria: User, role: str) -> None:
    """A browser sends the ticks of single rights too, even where single rights weren't chosen."""
    assert send(grid.admin, ASSIGN, **filled(role=role, verbs=["approve"])).status_code == 303
    grant = Grant.objects.get(user=grid.alice)
    assert (grant.role, set(grant.verbs)) == (role, RIGHTS[role])
    other = grant_role(grid, grid.alice, "/cms", "viewer" if role != "viewer" else "lead", reason="r")
    form = {"step": "change", "tag": tag_of(other), "role": role, "reason": "r", "no_end": "on"}
    assert send(grid.admin, f"{PAGE}{other.pk}/", **form, verbs=["approve"]).status_code == 303
    other.refresh_from_db()
    assert (other.role, set(other.verbs)) == (role, RIGHTS[role])


def test_the_table_of_roles_and_the_form_show_the_rights_of_each_role(grid: Grid, maria: User) -> None:
    page = read(page_of(grid.admin))
    columns = page.values("data-role", "table.roles thead")
    held = {role: set[str]() for role in columns}
    for row in page.all("table.roles tbody tr[data-verb]"):
        for role, cell in zip(columns, row.css("td[data-state]"), strict=True):
            if cell.attributes["data-state"] == "held":
                held[role].add(row.attributes["data-verb"] or "")
    assert held == RIGHTS
    for role, verbs in RIGHTS.items():
        grant = grant_role(grid, grid.alice, "/cms", role, reason="r")
        form = read(page_of(grid.admin, f"{PAGE}{grant.pk}/"))
        assert form.each("[name=role][checked]", "value") == [role]
        assert set(form.each("[name=verbs][checked]", "value")) == verbs


def test_a_grant_ends_no_later_than_the_right_of_its_author(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    assert own.expires_at is not None
    assert send(maria, ASSIGN, **filled(ends_on=own.expires_at.date().isoformat())).status_code == 303
    assert Grant.objects.get(user=grid.alice).expires_at == own.expires_at


def test_single_rights_can_be_chosen_under_advanced(grid: Grid, maria: User) -> None:
    assert send(maria, ASSIGN, **filled(singly="on", verbs=["publish", "view_aggregate"])).status_code == 303
    assert Grant.objects.get(user=grid.alice).verbs == ["view_aggregate", "publish"]
    assert send(maria, ASSIGN, **filled(singly="on", verbs=[], role="viewer")).status_code == 422
    page = read(page_of(maria))
    assert [node.attributes["data-role"] for node in page.items("adapted")] == ["lead"]


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    first(
        4,
        [
            ({"role": "admin"}, None, "more_than_own"),
            ({"person": "maria"}, None, "own_grant"),
            ({"person": "who-is-that"}, "person", "invalid"),
            ({"people": "oidc:x"}, "person", "invalid"),
            ({"entry": "/cms"}, "entry", "invalid"),
            ({"entry": "/"}, None, "not_allowed"),
            ({"ends_on": ""}, "ends_on", "no_end_chosen"),
            ({"reason": ""}, "reason", "required"),
            ({"ends_on": "2001-01-01"}, "ends_on", "invalid"),
        ],
    ),
)
def test_an_invalid_grant_form_keeps_its_input_and_names_the_error(
    grid: Grid, maria: User, wrong: dict[str, str], field: str | None, code: str
) -> None:
    answer = send(maria, ASSIGN, **filled(**wrong))
    page = read(answer, 422)
    assert codes_of(answer.context["form"]) == {field or NON_FIELD_ERRORS: [code]}
    assert page.text(f"#id_{field}_error" if field else "form [role=alert]")
    assert answer.context["form"]["reason"].value() == wrong.get("reason", "leads now")
    assert not Grant.objects.filter(user=grid.alice).exists()


def test_the_form_is_shown_to_those_who_may_grant(grid: Grid, maria: User) -> None:
    shown = page_of(maria, f"{ASSIGN}?entry=/atlas")
    assert (shown.status_code, 'name="person"' in shown.content.decode()) == (200, True)
    for refused in (page_of(grid.alice, ASSIGN), send(grid.alice, ASSIGN, **filled())):
        assert (refused.status_code, refused.context["refusal"].code) == (403, "not_allowed")
    assert not Grant.objects.filter(user=grid.alice).exists()


def test_a_grant_is_changed_extended_and_ended_in_the_version_shown(grid: Grid, maria: User) -> None:
    grant = grant_role(grid, grid.alice, "/atlas", "lead", days=9, reason="r", granted_by=maria)
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


def test_an_own_grant_can_be_given_up_but_not_extended(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    where = f"{PAGE}{own.pk}/"
    assert read(page_of(maria, where)).has("[data-testid=own-grant]")
    assert not read(page_of(grid.admin, where)).has("[data-testid=own-grant]")
    form = {"step": "change", "tag": tag_of(own), "role": "admin", "reason": "more", "no_end": "on"}
    answer = send(maria, where, **form)
    assert answer.status_code == 422
    assert codes_of(answer.context["form"]) == {NON_FIELD_ERRORS: ["own_grant"]}
    assert send(maria, where, step="end", tag=tag_of(own)).status_code == 303


def test_dependent_grants_are_listed_before_a_grant_ends(grid: Grid, maria: User) -> None:
    own = Grant.objects.get(user=maria)
    given = grant_role(grid, grid.alice, "/atlas/alice", "lead", days=20, reason="r", granted_by=maria)
    page = read(page_of(grid.admin, f"{PAGE}{own.pk}/"))
    assert "Alice Berg" in page.text("[data-testid=dependent_grants]")
    assert page.each("[name=given_on]", "value") == ["end", "keep"]
    send(grid.admin, f"{PAGE}{own.pk}/", step="end", tag=tag_of(own), given_on="keep")
    given.refresh_from_db()
    assert given.granted_by == grid.admin


def test_grants_ending_soon_are_extended_together_within_the_own_end(grid: Grid, maria: User) -> None:
    first = grant_role(grid, grid.alice, "/atlas", "lead", days=9, reason="r", granted_by=maria)
    other = grant_role(grid, grid.alice, "/cms", "lead", days=9, reason="r")
    answer = send(maria, f"{PAGE}extend/", grant=[str(first.pk), str(other.pk), "x"])
    assert answer.status_code == 303
    ends = {grant.pk: grant.expires_at for grant in Grant.objects.all()}
    assert ends[first.pk] == grid.at + timedelta(days=9 + 365)
    assert ends[other.pk] == grid.at + timedelta(days=9)


def test_an_invisible_grant_is_not_found(grid: Grid, maria: User) -> None:
    number = grant_role(grid, grid.alice, "/cms", "lead", reason="r").pk
    hidden, missing = (page_of(maria, f"{PAGE}{each}/") for each in (number, 99_999))
    assert hidden.status_code == missing.status_code == 404
    assert hidden.context["refusal"] == missing.context["refusal"]
    assert page_of(grid.admin, f"{PAGE}{number}/").status_code == 200


def test_the_page_of_an_entry_lists_the_own_rights_there(grid: Grid, maria: User) -> None:
    where = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/"
    page = read(page_of(maria, f"{where}_access", **HTMX))
    assert key_of(page, "verdict") == "divides_and_publishes"
    assert "Maria Hedin" in page.text("[data-testid=verdict]")
    assert "atlas" in page.text("[data-testid=verdict]")
    assert page.has(f"[href='{ASSIGN}?entry=/atlas']")
    assert page_of(maria, f"{where}_access")["Location"] == where
    assert f"{where}_access" in page_of(maria, f"{where}atlas/").content.decode()
    assert page_of(maria, f"/policy/{SLUG}/n/{grid.uid('/cms')}/_access", **HTMX).status_code == 404
