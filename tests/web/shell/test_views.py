"""Pages and fragments by request: who gets in, what is refused and how, and that reading changes nothing."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import resolve, reverse

from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import ChangeSet, Policy, Revision
from apps.priorities.models import Snapshot
from apps.priorities.serving import store
from apps.usage.models import Source
from fairshare_web.urls import PAGES
from tests.pages.grid import PASSWORD, SLUG, TRICKY, Grid, make_grid
from tests.pages.page import Page, names_in, read
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}
OPEN = {"sign-in", "sign-out", "theme"}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


@pytest.fixture
def alice(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.alice)
    return client


def _address(name: str, grid: Grid, path: str = "/biomed") -> str:
    kwargs: dict[str, object] = {}
    if name.startswith("policy") or name in {"entry", "entry-find", "shares", "shares-preview"}:
        kwargs["policy"] = SLUG
    if name in {"entry", "entry-find", "shares", "shares-preview"}:
        kwargs["uid"] = grid.uid(path)
    if name == "entry":
        kwargs["name"] = path.rsplit("/", 1)[-1]
    return reverse(f"pages:{name}", kwargs=kwargs)


def _shell_pages() -> set[str]:
    """The names of this room's URLs that the shell and the tree side own."""
    known = {
        "overview",
        "overview-attention",
        "my-priority",
        "policy",
        "policy-rows",
        "policy-search",
        "policy-panel",
        "entry",
        "entry-find",
        "shares",
        "shares-preview",
    }
    assert known <= {route.name for route in PAGES}
    return known


def test_every_page_redirects_anonymous_users_to_sign_in(grid: Grid, client: Client) -> None:
    for name in _shell_pages():
        answer = client.get(_address(name, grid))
        assert answer.status_code == 302, name
        assert answer["Location"].startswith(reverse("pages:sign-in")), name


def test_fragments_opened_directly_lead_to_their_page(admin: Client, grid: Grid) -> None:
    tree = _address("policy", grid)
    for name in ("policy-rows", "policy-search", "policy-panel"):
        answer = admin.get(_address(name, grid))
        assert (answer.status_code, answer["Location"]) == (303, tree), name
    assert admin.get(_address("overview-attention", grid)).status_code == 303
    assert admin.get(_address("shares-preview", grid)).status_code == 303


def test_a_fragment_after_the_session_ended_returns_a_message(grid: Grid, client: Client) -> None:
    answer = client.get(_address("policy-search", grid), headers=HTMX, follow=True)
    assert answer.status_code == 401
    assert answer["HX-Retarget"] == "#problem"
    assert answer.context["refusal"].code == "session_ended"
    assert "<html" not in answer.content.decode()


def test_every_response_has_the_strict_content_security_policy(admin: Client, grid: Grid) -> None:
    for path in ("/", _address("policy", grid), "/me/priority/", "/nothing/", "/sign-in/"):
        policy = admin.get(path)["Content-Security-Policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
        embedded = [part.strip() for part in policy.split(";") if "data:" in part]
        assert embedded == ["img-src 'self' data:"], path  # pictures of figures, which run no script


def test_get_requests_change_nothing(admin: Client, grid: Grid) -> None:
    pages = [_address(name, grid) for name in _shell_pages() - {"shares"}]
    pages += [f"{_address('policy-rows', grid)}?parent={grid.uid('/atlas')}", f"{_address('policy', grid)}?q=al"]
    for path in pages:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            admin.get(path, headers=HTMX)
        written = [q["sql"] for q in queries if q["sql"].split(" ", 1)[0] in {"INSERT", "UPDATE", "DELETE"}]
        assert written == [], path


def test_the_tree_shows_targets_and_actual_shares(admin: Client, grid: Grid) -> None:
    page = read(admin.get(_address("policy", grid)))
    assert len(page.all("table[role=treegrid] [role=row]")) == 1 + 1 + 3 + 6
    assert page.text(f"#e-{grid.uid('/atlas')} .c-target") == "60.0 %"
    assert "0.7 %" not in page.texts("#rows td")
    assert page.one(f'#e-{grid.uid("/cms")} [data-testid="balance"]').attributes["data-state"] == "idle"


def test_names_are_escaped_everywhere(admin: Client, grid: Grid) -> None:
    uid = grid.uid(f"/biomed/{TRICKY}")
    for path in (_address("policy", grid), f"/policy/{SLUG}/n/{uid}/", f"{_address('policy', grid)}?entry={uid}"):
        text = admin.get(path, follow=True).content.decode()
        assert "&lt;img src=x onerror=alert(1)&gt;o&#x27;neil&amp;amp;" in text, path
        assert not Page(text).has("img"), path


def test_a_wrong_slug_redirects_to_the_right_one(admin: Client, grid: Grid) -> None:
    uid = grid.uid("/biomed")
    answer = admin.get(f"/policy/{SLUG}/n/{uid}/old-name/")
    assert answer["Location"] == f"/policy/{SLUG}/n/{uid}/biomed/"


def test_invisible_objects_are_answered_like_unknown_ones(grid: Grid, client: Client) -> None:
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    sign_in(client, grid.alice)
    hidden, unknown = grid.uid("/biomed"), uuid4()
    for form in ("n/{}/", "_panel?entry={}", "_rows?parent={}"):
        answers = [
            client.get(f"/policy/{SLUG}/{form.format(uid)}", headers=HTMX).content.decode() for uid in (hidden, unknown)
        ]
        assert answers[0].replace(str(hidden), "") == answers[1].replace(str(unknown), ""), form
    assert client.get(f"/policy/{SLUG}/n/{hidden}/").status_code == 404
    assert client.get(_address("entry-find", grid, "/atlas"), follow=True).status_code == 200


def test_an_address_without_an_entry_is_refused_with_a_message(admin: Client) -> None:
    answer = admin.get(f"/policy/{SLUG}/_rows?parent=nonsense", headers=HTMX)
    assert answer.status_code == 422
    assert [(field.where, field.message) for field in answer.context["refusal"].fields] == [("address", "nonsense")]
    assert "nonsense" in answer.content.decode()


def _publish(client: Client, grid: Grid, **more: str) -> tuple[int, str]:
    given = {"shares": "50", "reason": "Because", "base_revision": "2", "step": "publish", **more}
    answer = client.post(_address("shares", grid), given)
    return answer.status_code, answer.content.decode()


def test_a_change_is_published_with_its_reason_and_author(admin: Client, grid: Grid) -> None:
    assert _publish(admin, grid)[0] == 303
    head = Revision.objects.get(policy__slug=SLUG, number=3)
    assert (head.reason, head.author) == ("Because", grid.admin)


def test_without_scripts_a_preview_is_shown_on_the_page(admin: Client, grid: Grid) -> None:
    status, text = _publish(admin, grid, step="preview", reason="")
    assert status == 200
    assert Page(text).has("#panel tr.me")
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_a_change_is_sent_to_review_with_its_reason(admin: Client, grid: Grid) -> None:
    assert _publish(admin, grid, step="propose")[0] == 303
    change_set = ChangeSet.objects.get(policy__slug=SLUG, state=ChangeSet.State.PROPOSED)
    assert change_set.reason == "Because"
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_a_percentage_is_published_as_shares(admin: Client, grid: Grid) -> None:
    assert _publish(admin, grid, shares="25 %")[0] == 303
    page = read(admin.get(_address("entry-find", grid), follow=True))
    assert "target 25.0 %" in page.text("#actual")


def test_a_change_of_another_person_is_shown_with_both_values(admin: Client, grid: Grid) -> None:
    _publish(admin, grid)
    status, text = _publish(admin, grid, shares="44")
    assert status == 409
    note = Page(text).text("#conflict")
    assert "set biomed to 50 shares" in note
    assert "yours is 44" in note
    assert (Page(text).one("#shares").attributes["value"], Page(text).one("#reason").attributes["value"]) == (
        "44",
        "Because",
    )
    status, text = _publish(admin, grid, shares="44", step="take:50", base_revision="3")
    assert (status, Page(text).one("#shares").attributes["value"], Page(text).has("#conflict")) == (200, "50", False)
    assert _publish(admin, grid, shares="44", base_revision="3")[0] == 303


@pytest.mark.parametrize(("shares", "reason"), [("-1", "r"), ("nan", "r"), ("1e999", "r"), ("", "r"), ("50", " ")])
def test_an_invalid_change_keeps_its_input_and_marks_the_field(
    admin: Client, grid: Grid, shares: str, reason: str
) -> None:
    status, text = _publish(admin, grid, shares=shares, reason=reason)
    assert status == 422
    wrong = Page(text).all('[aria-invalid="true"]')
    assert [field.attributes["name"] for field in wrong] == ["reason" if shares == "50" else "shares"]
    assert (Page(text).one("#shares").attributes.get("value") or "") == shares
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_a_user_without_rights_sees_no_form_and_is_refused(alice: Client, grid: Grid) -> None:
    assert not read(alice.get(_address("entry", grid, "/atlas"), follow=True)).has("#change-shares")
    status, _text = _publish(alice, grid)
    assert status == 403
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_my_priority_shows_the_path_and_the_deciding_level(alice: Client) -> None:
    answer = alice.get("/me/priority/")
    page = read(answer)
    assert str(page.one("#verdict").attributes["data-rank"]).isdigit()
    first, second = page.texts(".lv h3")[:2]
    assert names_in(first, "SweGrid", "atlas")
    assert names_in(second, "atlas")
    assert [(level.step.name, level.step.parent_name) for level in answer.context["story"].levels] == [
        ("atlas", "SweGrid"),
        ("alice", "atlas"),
    ]
    assert len(page.all(".lv li.decides")) == 1
    assert page.has('[data-testid="strip"]')


def test_a_site_without_a_policy_says_so_to_a_guest(db: None, client: Client) -> None:
    sign_in(client, User.objects.create_user("guest", "", PASSWORD))
    answer = client.get("/")
    assert read(answer).one("#verdict").attributes["data-key"] == "no_policy"
    assert "manage.py" not in answer.content.decode()
    assert read(client.get("/me/priority/")).one("#verdict").attributes["data-key"] == "no_account"


def test_before_the_first_recompute_only_targets_are_shown(db: None, client: Client) -> None:
    store.forget()
    grid = make_grid(clock.now(), with_usage=False)
    sign_in(client, grid.admin)
    page = read(client.get(_address("policy", grid)))
    assert page.has('[data-testid="no-snapshot"]')
    assert page.text(f"#e-{grid.uid('/atlas')} .c-target") == "60.0 %"
    assert page.each('#rows [data-testid="balance"]', "data-state") == ["nodata"] * 9
    assert client.get("/").status_code == 200
    assert client.get(_address("entry", grid)).status_code == 200


def test_my_priority_has_a_message_for_every_state_without_numbers(grid: Grid, client: Client) -> None:
    sign_in(client, User.objects.create_user("zoe", "", PASSWORD))
    assert read(client.get("/me/priority/")).one("#verdict").attributes["data-key"] == "no_account"
    Snapshot.objects.all().delete()
    store.forget()
    sign_in(client, grid.alice)
    assert read(client.get("/me/priority/")).one("#verdict").attributes["data-key"] == "verdict.no_snapshot"


def test_a_late_source_is_named_on_every_page(admin: Client, grid: Grid) -> None:
    Source.objects.update(expected_every_s=60, last_received_at=clock.now() - timedelta(hours=2))
    store.forget()
    for path in ("/", _address("policy", grid), "/me/priority/"):
        assert "Cluster A" in read(admin.get(path)).text('[data-testid="freshness-problem"]'), path
    own = read(sign_in(Client(), grid.alice).get("/me/priority/"))
    assert "Cluster A" in own.text('[data-testid="stale"]')
    assert [part for part in ("when", "changes") if "Cluster A" in own.text(f'[data-testid="{part}"]')] == []
    Source.objects.update(expected_every_s=None)
    store.forget()
    assert not read(admin.get("/")).has('[data-testid="freshness-problem"]')


def test_sign_in_never_reveals_whether_a_name_exists(grid: Grid, client: Client) -> None:
    def attempt(name: str) -> str:
        answer = client.post("/sign-in/", {"username": name, "password": "wrong"})
        token = answer.context["csrf_token"]
        return answer.content.decode().replace(str(token), "").replace(name, "")

    assert attempt("alice") == attempt("nobody")


def test_too_many_attempts_lock_the_name_for_that_address_only(grid: Grid, client: Client) -> None:
    for _ in range(8):
        answer = client.post("/sign-in/", {"username": "alice", "password": "wrong"})
    assert read(answer, 429).has('[data-testid="locked"]')
    right = {"username": "alice", "password": PASSWORD}
    assert client.post("/sign-in/", right).status_code == 429
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    assert elsewhere.post("/sign-in/", right).status_code == 302


def test_the_theme_is_a_cookie_and_never_redirects_off_site(alice: Client) -> None:
    answer = alice.post("/theme/", {"theme": "dark", "next": "/me/priority/"})
    assert (answer.status_code, answer["Location"]) == (303, "/me/priority/")
    assert read(alice.get("/me/priority/")).one("html").attributes["data-theme"] == "dark"
    assert alice.post("/theme/", {"theme": "light", "next": "https://evil.example/"})["Location"] == "/"
    alice.post("/theme/", {"theme": "system"})
    assert "data-theme" not in read(alice.get("/me/priority/")).one("html").attributes


def test_a_form_without_csrf_token_is_refused_with_a_message(grid: Grid) -> None:
    strict = Client(enforce_csrf_checks=True)
    sign_in(strict, grid.admin)
    answer = strict.post(_address("shares", grid), {"shares": "1"})
    assert (answer.status_code, answer.context["refusal"].code) == (403, "csrf")


def test_a_user_without_a_role_has_few_navigation_items_that_open(closed: Grid, client: Client) -> None:
    """Home, My jobs, My group; plug-ins add others."""
    sign_in(client, closed.alice)
    links = read(client.get("/me/priority/")).each("#nav > ul:not([hidden]) > li > a", "href")
    tree = f"/policy/{SLUG}/"
    assert links[:3] == ["/", f"{tree}charges/", f"/group/?policy={SLUG}"]
    assert client.get("/group/")["Location"].startswith(f"{tree}n/{closed.uid('/atlas')}/")
    assert client.get("/start/")["Location"] == "/me/priority/"
    for link in links:
        assert client.get(link, follow=True).status_code == 200, link


def test_no_page_links_to_a_page_refused_to_its_user(closed: Grid, client: Client) -> None:
    """One link of each route, from the pages of the navigation and two steps on."""
    sign_in(client, closed.alice)
    refused, seen = [], {"my-priority", "my-group", "policy", "overview"}
    waiting = ["/me/priority/", "/group/", f"/policy/{SLUG}/", "/"]
    while waiting:
        link = waiting.pop(0)
        answer = client.get(link, follow=True)
        refused += [link] if answer.status_code in (403, 404) else []
        if "text/html" not in answer["Content-Type"] or len(seen) > 40:
            continue
        for each in sorted(set(read(answer, answer.status_code).each("main a[href]", "href"))):
            path = each.partition("#")[0]
            name = resolve(path.partition("?")[0]).url_name if path.startswith("/") else None
            if name and name not in seen:
                seen.add(name)
                waiting.append(path)
    assert refused == []
    assert len(seen) > 15


def test_an_unknown_address_keeps_the_navigation(admin: Client) -> None:
    answer = admin.get("/no/such/page")
    assert read(answer, 404).has("#nav")
    assert answer.context["refusal"].code == "not_found"
    plain = Client().get("/no/such/page")
    assert (plain.status_code, b'id="nav"' in plain.content) == (404, False)
