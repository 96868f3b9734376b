"""The audit page: who did what, told as sentences; narrowed, paged, opened row by row, downloaded; and the chain."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client, override_settings

from apps.accounts import audit
from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_check import check_chain
from apps.accounts.models import AuditCheck, AuditEvent, User
from apps.dashboard.audit_words import SENTENCES, TOPICS, WANTED
from apps.errors import NotAllowed
from apps.policies.delegation import give_grant
from apps.policies.models import Grant, Policy
from apps.policies.roles import VERBS_OF_ROLE
from tests.dashboard.grid import SLUG, Grid, make_grid
from tests.dashboard.test_history import edit
from tests.dashboard.test_time_travel import publish, text

PAGE = "/audit/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def grid(db: None) -> Grid:
    return make_grid(datetime.now(UTC))


@pytest.fixture
def eva(grid: Grid, client: Client) -> Client:
    client.force_login(grid.admin)
    return client


@pytest.fixture
def maria(grid: Grid) -> Client:
    """Authority of cms."""
    return signed_in(User.objects.create_user("maria"), grid, "/cms", "manager")


def signed_in(user: User, grid: Grid, path: str = "", role: str = "") -> Client:
    if role:
        Grant.objects.create(
            policy=Policy.objects.get(), entry_uid=grid.uid(path), user=user, role=role,
            verbs=list(VERBS_OF_ROLE[role]), created_at=grid.at,
        )  # fmt: skip
    client = Client()
    client.force_login(user)
    return client


def done(actor: Actor, verb: str = "token.made", **more: Any) -> AuditEvent:
    return audit.record(actor=actor, verb=verb, at=more.pop("at", datetime.now(UTC)), **more)


def rows(client: Client, **query: Any) -> str:
    answer = client.get(f"{PAGE}_rows", query, headers=HTMX)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


# --- Told -------------------------------------------------------------------------------------------------------------
def test_a_publish_is_a_sentence_with_its_reason_a_way_to_what_changed_and_a_way_back(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), reason="Atlas bought nodes.\nIn May.")
    page = text(eva, PAGE)
    assert "<b>admin</b> published" in page
    assert f'href="/policy/{SLUG}/history/diff/?to=3">revision 3 of grid</a>' in page
    assert "<p>Atlas bought nodes.</p>" in page
    assert f'href="/policy/{SLUG}/history/3/undo/"' in page
    assert f'href="/policy/{SLUG}/history/1/undo/"' not in page


def test_a_role_is_told_with_its_name_and_where_it_was_given(grid: Grid, eva: Client) -> None:
    give_grant(policy_slug=SLUG, entry_uid=grid.uid("/atlas"), username="alice", role="lead", reason="leads it",
               at=grid.at, actor=Actor(user=grid.admin, via="page"))  # fmt: skip
    page = " ".join(text(eva, PAGE).split())
    assert (
        f'<b>admin</b> gave <a href="/policy/{SLUG}/n/{grid.uid("/atlas")}/">alice</a> the role Group lead at atlas'
        in page
    )


def test_refused_attempts_say_who_wanted_what_and_why_not(grid: Grid, eva: Client, maria: Client) -> None:
    actor = Actor(user=User.objects.get(username="maria"), via="page")
    with pytest.raises(NotAllowed):
        give_grant(policy_slug=SLUG, entry_uid=grid.uid("/cms"), username="maria", role="lead", reason="more",
                   at=grid.at, actor=actor)  # fmt: skip
    page = text(eva, PAGE)
    assert "wanted to give" in page
    assert "Nobody gives a role to themselves" in page
    assert '<span class="badge bad">refused</span>' in page
    assert ", 1 refused</h1>" in page
    assert "Nobody gives a role" in rows(eva, outcome="refused")
    assert "published" not in rows(eva, outcome="refused").replace("wanted to publish", "")


def test_what_one_request_did_is_told_together_each_with_its_details(grid: Grid, eva: Client) -> None:
    actor = Actor(user=grid.admin, via="page", request_id="r-1")
    first, second = done(actor, subject="one"), done(actor, "token.revoked", subject="two")
    alone = done(Actor(user=grid.admin, via="page", request_id="r-2"), subject="three")
    page = text(eva, PAGE)
    assert f'id="row-{second.id}"' in page
    assert f'id="row-{first.id}"' not in page
    assert f'id="row-{alone.id}"' in page
    for event in (first, second, alone):
        assert f'aria-label="Details of row {event.id}"' in page


def test_a_verb_that_nobody_wrote_a_sentence_for_is_told_plainly(eva: Client) -> None:
    done(SYSTEM, "peer.trusted_100%", subject="north")
    assert "<b>system</b> peer trusted 100%: north" in text(eva, PAGE)


def test_every_verb_that_services_write_has_its_sentence_and_every_refusal_too() -> None:
    verb = re.compile(rf"(?:{'|'.join(TOPICS)})\.[a-z_]+")
    written, refused = set(), set()
    for room in ("accounts", "policies", "priorities", "usage"):
        for file in (Path(settings.BASE_DIR) / "apps" / room).rglob("*.py"):
            if "migrations" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and verb.fullmatch(node.value):
                    written.add(node.value)
                if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith(("on_record", "_guarded")):
                    refused |= {
                        arg.value
                        for arg in node.args[:1]
                        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                    }
    assert {"policy.published", "changeset.declined", "grant.given", "usage.sealed"} <= written
    assert sorted(written - set(SENTENCES)) == []
    assert {"grant.given", "allocation.given"} <= refused
    assert sorted(refused - set(WANTED)) == []


# --- Narrowed ---------------------------------------------------------------------------------------------------------
def test_the_list_is_narrowed_and_the_address_and_the_downloads_follow(grid: Grid, eva: Client) -> None:
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


def test_an_entry_is_asked_for_by_its_path_or_its_uid_and_what_is_below_comes_with_it(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/cms/dave", 3), reason="for dave")
    publish(grid, edit("/atlas", 70), reason="for atlas")
    for asked in ("/cms", "cms", "/cms/", "/cms/dave", str(grid.uid("/cms")), str(grid.uid("/cms/dave"))):
        found = rows(eva, entry=asked)
        assert "for dave" in found, asked
        assert "for atlas" not in found, asked
    publish(grid, {"op": "archive", "entry": "/cms/dave"}, reason="he left")
    dave = Policy.objects.get().entries.filter(name="dave").values_list("uid", flat=True)[0]
    assert "for dave" in rows(eva, entry=str(dave))
    assert "Nothing stands at /cms/dave now" in rows(eva, entry="/cms/dave")


def test_a_hidden_entry_is_answered_like_one_that_isn_t_there(grid: Grid, maria: Client) -> None:
    publish(grid, edit("/atlas", 70), reason="for atlas")
    Policy.objects.update(visibility="path")
    hidden, missing = (rows(maria, entry=path) for path in ("/atlas", "/nowhere"))
    assert hidden.replace("/atlas", "X").replace("%2Fatlas", "Y") == missing.replace("/nowhere", "X").replace(
        "%2Fnowhere", "Y"
    )
    assert "No such entry" in hidden
    assert maria.get(f"{PAGE}export.csv", {"entry": "/atlas"}).getvalue().count(b"\n") == 1


def test_days_are_those_of_the_site_and_the_last_one_counts_whole(grid: Grid, eva: Client) -> None:
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
        {"before": "x"}, {"before": "-1"}, {"before": "9" * 19}, {"before": "٣"}, {"since": "yesterday"},
        {"until": "9999-12-31"}, {"since": "2026-03-10T00:00+01:00"}, {"via": "fax"},
        {"outcome": "maybe"},
    ],
)  # fmt: skip
def test_a_filter_that_is_none_is_refused_by_its_name(eva: Client, query: dict[str, str]) -> None:
    for path in (PAGE, f"{PAGE}_rows"):
        answer = eva.get(path, query, headers=HTMX)
        assert answer.status_code == 422, path
        assert next(iter(query)) in answer.content.decode()


@pytest.mark.parametrize(
    "query", [{"q": "%\0'\\"}, {"verb": "%"}, {"who": "_" * 500}, {"entry": "/" * 300}, {"policy": "no"}]
)
def test_signs_of_the_database_are_just_signs(eva: Client, query: dict[str, str]) -> None:
    assert "Nothing fits" in rows(eva, **query) or "No such entry" in rows(eva, **query)


def test_long_logs_go_on_by_pages_without_a_gap_under_the_same_filter(grid: Grid, eva: Client) -> None:
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
    assert f'href="{PAGE}?verb=token">Newest</a>' in page


def test_who_did_nothing_and_holds_nothing_reads_that(grid: Grid) -> None:
    page = text(signed_in(grid.alice, grid), PAGE)
    assert "You have done nothing yet" in page
    assert "<h1>Nothing happened in 7 days</h1>" in page
    assert "Nothing fits" in text(signed_in(grid.alice, grid), PAGE, q="division")


# --- Whose ------------------------------------------------------------------------------------------------------------
def test_an_authority_reads_what_concerns_the_own_part_and_is_offered_only_what_opens(
    grid: Grid, maria: Client
) -> None:
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


def test_a_viewer_of_sums_reads_nobody_by_name_here_either(grid: Grid) -> None:
    publish(grid, edit("/cms/dave", 3), reason="about dave")
    viewer = signed_in(User.objects.create_user("vic"), grid, "/", "viewer")
    assert "about dave" not in text(viewer, PAGE)
    lead = signed_in(User.objects.create_user("lea"), grid, "/cms", "lead")
    assert "about dave" in text(lead, PAGE)


def test_undo_is_offered_only_to_whoever_changes_something_there(grid: Grid, maria: Client) -> None:
    publish(grid, edit("/cms/dave", 3), reason="inside")
    reader = User.objects.create_user("rea")
    Grant.objects.create(policy=Policy.objects.get(), entry_uid=grid.uid("/cms"), user=reader, role="viewer",
                         verbs=["view_aggregate", "view_members"], created_at=grid.at)  # fmt: skip
    assert "/history/3/undo/" in text(maria, PAGE)
    page = text(signed_in(reader, grid), PAGE)
    assert "inside" in page
    assert "/undo/" not in page


def test_addresses_are_for_administrators_and_requests_for_whoever_made_them(
    grid: Grid, eva: Client, maria: Client
) -> None:
    user = User.objects.get(username="maria")
    own = done(Actor(user=user, via="page", request_id="req-own", address="192.0.2.8"))
    other = done(
        Actor(user=grid.admin, via="page", request_id="req-other", address="192.0.2.9"), "grant.given",
        policy_slug=SLUG, entry_uid=grid.uid("/cms"),
    )  # fmt: skip
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


# --- One row ----------------------------------------------------------------------------------------------------------
def test_a_row_tells_what_was_before_and_after_and_where_it_stands_in_the_chain(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, reason="a\n\nb <i>")
    row = AuditEvent.objects.get(verb="policy.published", reason__startswith="a")
    answer = eva.get(f"{PAGE}_event", {"row": row.pk}, headers=HTMX)
    body = " ".join(answer.content.decode().split())
    assert body.startswith('<section class="card" id="chosen"')
    assert '<b>atlas</b> shares: <span class="muted">60</span>' in body
    assert "0.25" in body
    assert bytes(row.hash).hex()[:16] in body
    assert "b &lt;i&gt;" in body
    assert f'href="{PAGE}?who=admin"' in body
    assert f'href="{PAGE}?policy={SLUG}&amp;entry={grid.uid("/atlas")}"' in body


def test_details_are_told_in_words(grid: Grid, eva: Client) -> None:
    row = done(
        SYSTEM, "account.owned", details={"accounts": [{"namespace": "a", "user_name": "bob", "dn": ""}], "new": True}
    )
    body = text(eva, PAGE, row=row.pk)
    assert "namespace a, user name bob" in body
    assert "{&#x27;" not in body


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


# --- Downloads --------------------------------------------------------------------------------------------------------
def test_a_download_is_what_the_list_shows_and_ends_with_the_hash_of_its_lines(grid: Grid, eva: Client) -> None:
    publish(grid, edit("/atlas", 77), reason="Ångström")
    answer = eva.get(f"{PAGE}export.jsonl", {"verb": "policy"})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="audit-2')
    assert answer.headers["Cache-Control"] == "private, no-store"
    *lines, last = answer.getvalue().splitlines(keepends=True)
    assert [json.loads(line)["verb"] for line in lines] == ["policy.published"] * 3
    assert json.loads(lines[0])["reason"] == "Ångström"
    assert json.loads(last) == {"rows": 3, "sha256_of_the_lines_above": hashlib.sha256(b"".join(lines)).hexdigest()}


def test_the_table_for_spreadsheets_holds_no_formula(grid: Grid, eva: Client) -> None:
    done(Actor(user=grid.alice, via="api"), subject="=1+1", reason="@SUM(A1)", details={"n": 1})
    answer = eva.get(f"{PAGE}export.csv", {"verb": "token"})
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(StringIO(answer.getvalue().decode()))
    assert (row["subject"], row["reason"], row["actor"]) == ("'=1+1", "'@SUM(A1)", "alice")
    assert json.loads(row["details"]) == {"n": 1}
    assert row["at"].endswith("Z")


# --- The chain --------------------------------------------------------------------------------------------------------
def test_the_page_says_up_to_where_the_chain_holds_and_when_that_was_seen(grid: Grid, eva: Client) -> None:
    assert "chain not checked yet" in text(eva, PAGE)
    check = check_chain(at=datetime.now(UTC))
    page = text(eva, PAGE)
    assert f"chain unbroken up to row {check.n_rows}" in page
    assert 'class="badge ok"' in page
    AuditCheck.objects.create(checked_at=datetime.now(UTC) - timedelta(hours=3), duration_s=1, n_rows=check.n_rows,
                              head_hash=check.head_hash)  # fmt: skip
    page = text(eva, PAGE)
    assert 'class="badge warn"' in page
    assert "more than two hours ago" in page


def test_a_broken_chain_is_named_by_its_row_and_told_in_full_to_administrators(
    grid: Grid, eva: Client, maria: Client
) -> None:
    broken = done(SYSTEM, subject="honest")
    with connection.cursor() as cursor:  # as a superuser of the database could
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE accounts_auditevent SET subject = 'forged' WHERE id = %s", [broken.id])
        cursor.execute("SET session_replication_role = DEFAULT")
    assert check_chain(at=datetime.now(UTC)).broken_id == broken.id
    for client, tells in ((eva, True), (maria, False)):
        page = text(client, PAGE)
        assert f"chain broken at row {broken.id}" in page
        assert 'class="badge bad"' in page
        assert (f"row {broken.id} was changed" in page) is tells
