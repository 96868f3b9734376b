"""The audit page: who did what, as sentences; narrowed, paged, opened row by row, downloaded; and the chain."""

from __future__ import annotations

import csv
import hashlib
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import check_chain
from apps.accounts.models import AuditCheck, AuditEvent, User
from apps.core import clock
from apps.core.errors import NotAllowed
from apps.policies.access.authority import GrantTerms
from apps.policies.access.delegation import create_grant
from apps.policies.models import Grant, Policy
from tests.grants import make_grant
from tests.pages.changes.history.test_history import edit
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in
from tests.web.shell.test_time_travel import publish, text

PAGE = "/audit/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def eva(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


@pytest.fixture
def maria(grid: Grid) -> Client:
    """Authority of cms."""
    return signed_in(User.objects.create_user("maria"), grid, "/cms", "manager")


def signed_in(user: User, grid: Grid, path: str = "", role: str = "") -> Client:
    if role:
        make_grant(user, grid.uid(path), role, at=grid.at)
    return sign_in(Client(), user)


def done(actor: Actor, verb: str = "token.made", **more: Any) -> AuditEvent:
    return audit.record(actor=actor, verb=verb, at=more.pop("at", clock.now()), **more)


def rows(client: Client, **query: Any) -> str:
    answer = client.get(f"{PAGE}_rows", query, headers=HTMX)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def shown(client: Client, path: str = PAGE, **query: Any) -> Page:
    return read(client.get(path, query))


def row_of(page: Page, event: AuditEvent) -> Page:
    return Page(page.one(f"#row-{event.pk}").html or "")


def empty(html: str) -> str:
    """The key of what the list says where it has no row."""
    return Page(html).item("no-rows").attributes["data-key"] or ""


def test_a_publication_is_listed_with_reason_link_and_undo(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), reason="Atlas bought nodes.\nIn May.")
    page = shown(eva)
    row = row_of(page, AuditEvent.objects.filter(verb="policy.published").latest("pk"))
    sentence = row.item("sentence")
    assert sentence.attributes["data-key"] == "policy.published"
    assert row.text("[data-testid=sentence] b") == "Eva Kling"
    assert row.values("href", "[data-testid=sentence]") == [f"/policy/{SLUG}/history/diff/?to=3"]
    assert text_of(row.item("reason")) == "Atlas bought nodes."
    assert row.item("undo").attributes["href"] == f"/policy/{SLUG}/history/3/undo/"
    assert f"/policy/{SLUG}/history/1/undo/" not in page.values("href")
    assert page.has(f'[data-testid=sentence] a[href="/policy/{SLUG}/history/diff/?to=1"]'), "shown, without an undo"


def test_a_role_is_listed_with_its_name_and_entry(grid: Grid, eva: Client) -> None:
    create_grant(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        terms=GrantTerms(username="alice", role="lead", reason="leads it"),
        at=grid.at,
        actor=Actor(user=grid.admin, via="page"),
    )
    row = row_of(shown(eva), AuditEvent.objects.get(verb="grant.given"))
    assert row.item("sentence").attributes["data-key"] == "grant.given"
    assert row.text("[data-testid=sentence] b") == "Eva Kling"
    link = row.one("[data-testid=sentence] a")
    assert (link.attributes["href"], text_of(link)) == (f"/policy/{SLUG}/n/{grid.uid('/atlas')}/", "alice")
    assert str(Grant.Role.LEAD.label) in text_of(row.item("sentence"))
    assert "atlas" in text_of(row.item("sentence"))


def test_refused_attempts_name_actor_action_and_reason(grid: Grid, eva: Client, maria: Client) -> None:
    actor = Actor(user=User.objects.get(username="maria"), via="page")
    with pytest.raises(NotAllowed) as refusal:
        create_grant(
            policy_slug=SLUG,
            entry_uid=grid.uid("/cms"),
            terms=GrantTerms(username="maria", role="lead", reason="more"),
            at=grid.at,
            actor=actor,
        )
    page = shown(eva)
    event = AuditEvent.objects.get(verb="grant.given", outcome="refused")
    row = row_of(page, event)
    assert event.subject in text_of(row.item("sentence"))
    assert text_of(row.item("reason")) == refusal.value.message
    assert row.item("outcome").attributes["data-state"] == "refused"
    count = page.item("audit-count")
    assert (count.attributes["data-value"], count.attributes["data-refused"]) == (str(AuditEvent.objects.count()), "1")
    assert "1" in text_of(count)
    only = Page(rows(eva, outcome="refused"))
    assert [each.attributes["id"] for each in only.all("#rows li")] == [f"row-{event.pk}"]


def test_rows_of_one_request_are_grouped_with_their_details(grid: Grid, eva: Client) -> None:
    actor = Actor(user=grid.admin, via="page", request_id="r-1")
    first, second = done(actor, subject="one"), done(actor, "token.revoked", subject="two")
    alone = done(Actor(user=grid.admin, via="page", request_id="r-2"), subject="three")
    page = text(eva, PAGE)
    assert f'id="row-{second.id}"' in page
    assert f'id="row-{first.id}"' not in page
    assert f'id="row-{alone.id}"' in page
    leads = [each.attributes["href"] or "" for each in Page(page).items("details")]
    for event in (first, second, alone):
        assert [f"row={event.id}#chosen" in each for each in leads].count(True) == 1


def test_a_verb_without_a_sentence_is_shown_as_it_is(eva: Client) -> None:
    done(SYSTEM, "peer.trusted_100%", subject="north")
    assert text_of(shown(eva).one('[data-key="peer.trusted_100%"]')) == "system peer trusted 100%: north"


def test_the_filter_applies_to_list_address_and_downloads(grid: Grid, eva: Client) -> None:
    done(Actor(user=grid.alice, via="api"), subject="robot")
    answer = eva.get(f"{PAGE}_rows", {"who": "ali", "verb": "token", "via": "api", "q": ""}, headers=HTMX)
    assert answer.headers["HX-Replace-Url"] == f"{PAGE}?who=ali&verb=token&via=api"
    body = answer.content.decode()
    assert "robot" in body
    assert "First division." not in body
    assert 'href="/audit/export.csv?who=ali&amp;verb=token&amp;via=api"' in body
    assert 'id="exports" hx-swap-oob="true"' in body
    page = text(eva, PAGE, who="ali", verb="token.made")
    assert 'value="ali"' in page
    assert '<option value="token.made" selected>' in page


def test_the_entry_filter_takes_path_or_uid_and_includes_the_subtree(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/cms/dave", 3), reason="for dave")
    publish(grid, edit("/atlas", 70), reason="for atlas")
    for asked in ("/cms", "cms", "/cms/", "/cms/dave", str(grid.uid("/cms")), str(grid.uid("/cms/dave"))):
        found = rows(eva, entry=asked)
        assert "for dave" in found, asked
        assert "for atlas" not in found, asked
    publish(grid, {"op": "archive", "entry": "/cms/dave"}, reason="he left")
    dave = Policy.objects.get().entries.filter(name="dave").values_list("uid", flat=True)[0]
    assert "for dave" in rows(eva, entry=str(dave))
    assert empty(rows(eva, entry="/cms/dave")) == "no_entry"


def test_a_hidden_entry_is_answered_like_an_unknown_one(grid: Grid, maria: Client) -> None:
    publish(grid, edit("/atlas", 70), reason="for atlas")
    Policy.objects.update(visibility="path")
    hidden, missing = (rows(maria, entry=path) for path in ("/atlas", "/nowhere"))
    assert hidden.replace("/atlas", "X").replace("%2Fatlas", "Y") == missing.replace("/nowhere", "X").replace(
        "%2Fnowhere", "Y"
    )
    assert empty(hidden) == "no_entry"
    assert maria.get(f"{PAGE}export.csv", {"entry": "/atlas"}).getvalue().count(b"\n") == 1


def test_days_are_in_the_zone_of_the_site_and_the_last_is_inclusive(grid: Grid, eva: Client) -> None:
    with override_settings(TIME_ZONE="Europe/Stockholm"):
        check_days(eva)


def check_days(eva: Client) -> None:
    for hour, name in ((22, "the tenth, late in the evening"), (23, "the eleventh, just begun")):
        done(SYSTEM, at=datetime(2026, 3, 10, hour, 30, tzinfo=UTC), subject=name)
    found = rows(eva, since="2026-03-10", until="2026-03-10")
    assert "the tenth" in found
    assert "the eleventh" not in found
    assert "the eleventh" in rows(eva, since="2026-03-11", until="2026-03-11")


@pytest.mark.parametrize(
    "query",
    [
        {"before": "x"},
        {"before": "-1"},
        {"before": "9" * 19},
        {"before": "٣"},
        {"since": "yesterday"},
        {"until": "9999-12-31"},
        {"since": "2026-03-10T00:00+01:00"},
        {"via": "fax"},
        {"outcome": "maybe"},
    ],
)
def test_an_invalid_filter_is_refused_by_name(eva: Client, query: dict[str, str]) -> None:
    for path in (PAGE, f"{PAGE}_rows"):
        answer = eva.get(path, query, headers=HTMX)
        assert answer.status_code == 422, path
        assert next(iter(query)) in answer.content.decode()


@pytest.mark.parametrize(
    "query", [{"q": "%\0'\\"}, {"verb": "%"}, {"who": "_" * 500}, {"entry": "/" * 300}, {"policy": "no"}]
)
def test_sql_wildcards_in_filters_are_literal(eva: Client, query: dict[str, str]) -> None:
    assert empty(rows(eva, **query)) == "nothing_fits"


def test_paging_has_no_gaps_and_keeps_the_filter(grid: Grid, eva: Client) -> None:
    events = [done(SYSTEM, subject=f"robot {n:03}") for n in range(120)]
    seen: list[int] = []
    query: dict[str, Any] = {"verb": "token"}
    for _page in range(9):
        page = text(eva, PAGE, **query)
        seen += [event.id for event in reversed(events) if f'id="row-{event.id}"' in page]
        if 'id="older"' not in page:
            break
        query["before"] = page.split('id="older"')[1].split("before=")[1].split('"')[0]
        assert f'href="{PAGE}?verb=token&amp;before={query["before"]}"' in page
    assert seen == [event.id for event in reversed(events)]
    assert Page(page).one("#newest").attributes["href"] == f"{PAGE}?verb=token"


def test_a_user_without_actions_and_rights_sees_an_empty_log(grid: Grid) -> None:
    page = text(signed_in(grid.alice, grid), PAGE)
    assert empty(page) == "nothing"
    assert Page(page).item("audit-count").attributes["data-value"] == "0"
    assert empty(text(signed_in(grid.alice, grid), PAGE, q="division")) == "nothing_fits"


def test_a_manager_sees_rows_of_the_own_subtree_with_working_links(grid: Grid, maria: Client) -> None:
    publish(grid, edit("/cms/dave", 3), reason="inside")
    publish(grid, edit("/atlas", 70), reason="outside")
    publish(grid, edit("/cms/dave", 4), edit("/biomed", 31), reason="both")
    for body in (text(maria, PAGE), rows(maria), maria.get(f"{PAGE}export.csv").getvalue().decode()):
        assert "inside" in body
        assert "outside" not in body
        assert "both" not in body
    inside = AuditEvent.objects.get(verb="policy.published", reason="inside").pk
    outside = AuditEvent.objects.get(verb="policy.published", reason="outside").pk
    assert maria.get(PAGE, {"row": inside}).status_code == 200
    hidden, missing = (maria.get(PAGE, {"row": id}) for id in (outside, 10**9))
    assert hidden.status_code == missing.status_code == 404


def test_a_viewer_of_totals_sees_no_user_names_in_the_log(grid: Grid) -> None:
    publish(grid, edit("/cms/dave", 3), reason="about dave")
    viewer = signed_in(User.objects.create_user("vic"), grid, "/", "viewer")
    assert "about dave" not in text(viewer, PAGE)
    lead = signed_in(User.objects.create_user("lea"), grid, "/cms", "lead")
    assert "about dave" in text(lead, PAGE)


def test_undo_is_offered_only_with_the_right_to_change(grid: Grid, maria: Client) -> None:
    publish(grid, edit("/cms/dave", 3), reason="inside")
    reader = User.objects.create_user("rea")
    make_grant(reader, grid.uid("/cms"), "viewer", verbs=["view_aggregate", "view_members"], at=grid.at)
    assert "/history/3/undo/" in text(maria, PAGE)
    page = text(signed_in(reader, grid), PAGE)
    assert "inside" in page
    assert "/undo/" not in page


def test_only_administrators_see_addresses_and_only_authors_see_requests(
    grid: Grid, eva: Client, maria: Client
) -> None:
    user = User.objects.get(username="maria")
    own = done(Actor(user=user, via="page", request_id="req-own", address="192.0.2.8"))
    other = done(
        Actor(user=grid.admin, via="page", request_id="req-other", address="192.0.2.9"),
        "grant.given",
        policy_slug=SLUG,
        entry_uid=grid.uid("/cms"),
    )
    for event, request_id, address in ((own, "req-own", "192.0.2.8"), (other, "req-other", "192.0.2.9")):
        page = text(eva, PAGE, row=event.pk)
        assert request_id in page
        assert address in page
        page = text(maria, PAGE, row=event.pk)
        assert (request_id in page) == (event is own)
        assert address not in page
    exported = maria.get(f"{PAGE}export.jsonl").getvalue().decode()
    assert "req-own" in exported
    assert "req-other" not in exported
    assert "192.0.2" not in exported


def test_a_row_shows_before_after_and_its_position_in_the_chain(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, reason="a\n\nb <i>")
    row = AuditEvent.objects.get(verb="policy.published", reason__startswith="a")
    answer = eva.get(f"{PAGE}_event", {"row": row.pk}, headers=HTMX)
    body = " ".join(answer.content.decode().split())
    assert body.startswith('<section class="card" id="chosen"')
    (atlas,) = (line for line in answer.context["lines"] if line.name == "atlas")
    assert (atlas.before, atlas.after) == ("60", "77")
    assert any({"atlas", "60", "77"} <= set(each.split()) for each in Page(body).texts("#chosen li"))
    assert "0.25" in body
    assert bytes(row.hash).hex()[:16] in body
    assert "b &lt;i&gt;" in body
    assert f'href="{PAGE}?who=admin"' in body
    assert f'href="{PAGE}?policy={SLUG}&amp;entry={grid.uid("/atlas")}"' in body


def test_details_are_shown_as_sentences(grid: Grid, eva: Client) -> None:
    row = done(
        SYSTEM, "account.owned", details={"accounts": [{"namespace": "a", "user_name": "bob", "dn": ""}], "new": True}
    )
    body = text(eva, PAGE, row=row.pk)
    (found,) = (each for each in Page(body).texts("#chosen dl.facts dd") if "bob" in each)
    assert not set("{}[]'\"") & set(found)


def test_fragments_opened_directly_lead_to_the_page(eva: Client) -> None:
    for name in ("_rows", "_event"):
        assert eva.get(f"{PAGE}{name}").headers["Location"] == PAGE


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}_rows", f"{PAGE}_event", f"{PAGE}export.csv", f"{PAGE}export.jsonl"])
def test_reading_writes_nothing_and_nothing_else_is_allowed(eva: Client, path: str) -> None:
    before = AuditEvent.objects.count()
    answer = eva.get(path, headers=HTMX)
    b"".join(answer)
    assert AuditEvent.objects.count() == before
    assert eva.post(path, headers=HTMX).status_code == 405


def test_a_download_equals_the_list_and_ends_with_its_hash(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), reason="Ångström")
    answer = eva.get(f"{PAGE}export.jsonl", {"verb": "policy"})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="audit-2')
    assert answer.headers["Cache-Control"] == "private, no-store"
    *lines, last = answer.getvalue().splitlines(keepends=True)
    assert [json.loads(line)["verb"] for line in lines] == ["policy.published"] * 3
    assert json.loads(lines[0])["reason"] == "Ångström"
    assert json.loads(last) == {"rows": 3, "sha256_of_the_lines_above": hashlib.sha256(b"".join(lines)).hexdigest()}


def test_the_csv_of_the_log_contains_no_formulas(grid: Grid, eva: Client) -> None:
    done(Actor(user=grid.alice, via="api"), subject="=1+1", reason="@SUM(A1)", details={"n": 1})
    answer = eva.get(f"{PAGE}export.csv", {"verb": "token"})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(StringIO(answer.getvalue().decode()))
    assert (row["subject"], row["reason"], row["actor"]) == ("'=1+1", "'@SUM(A1)", "alice")
    assert json.loads(row["details"]) == {"n": 1}
    assert row["at"].endswith("Z")


def test_the_page_shows_the_verified_part_of_the_chain_and_its_time(grid: Grid, eva: Client) -> None:
    assert chain(shown(eva)) == ("warn", "unchecked", None)
    check = check_chain(at=clock.now())
    page = shown(eva)
    assert chain(page) == ("ok", "unbroken", str(check.n_rows))
    assert str(check.n_rows) in text_of(page.item("audit-chain"))
    assert not page.has("[data-testid=chain-overdue]")
    AuditCheck.objects.create(
        checked_at=clock.now() - timedelta(hours=3), duration_s=1, n_rows=check.n_rows, head_hash=check.head_hash
    )
    page = shown(eva)
    assert chain(page) == ("warn", "overdue", str(check.n_rows))
    assert page.has("[data-testid=chain-overdue]")


def chain(page: Page) -> tuple[str | None, ...]:
    return tuple(page.item("audit-chain").attributes.get(name) for name in ("data-state", "data-key", "data-value"))


def test_a_broken_chain_names_its_row_and_shows_details_to_administrators(
    grid: Grid, eva: Client, maria: Client
) -> None:
    broken = done(SYSTEM, subject="honest")
    with connection.cursor() as cursor:  # as a superuser of the database could
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE accounts_auditevent SET subject = 'forged' WHERE id = %s", [broken.id])
        cursor.execute("SET session_replication_role = DEFAULT")
    check = check_chain(at=clock.now())
    assert check.broken_id == broken.id
    for client, tells in ((eva, True), (maria, False)):
        page = shown(client)
        assert chain(page) == ("bad", "broken", str(broken.id))
        assert str(broken.id) in text_of(page.item("audit-chain"))
        assert [text_of(each) for each in page.items("chain-problem")] == [check.problem] * tells


def test_a_day_recorded_after_a_newer_one_is_marked(grid: Grid, eva: Client) -> None:
    actor = Actor(user=grid.admin, via="page")
    for days_ago in (3, 1, 2):
        done(actor, at=clock.now() - timedelta(days=days_ago), subject=f"t{days_ago}")
    headings = read(eva.get(PAGE)).all(".feed h3")
    late = [each.css_first("[data-testid=recorded-late]") is not None for each in headings[:3]]
    assert late == [True, False, True], "the first record of today is older"
