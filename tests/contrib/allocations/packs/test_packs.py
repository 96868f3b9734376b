"""Committee packs: numbers as REST has them, on the page and by link too; a link shows one pack, until it ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, Token, User
from apps.accounts.services import NewToken, make_token
from apps.contrib.allocations.models import SharedPack
from apps.contrib.allocations.packs.bars import core_h
from apps.contrib.allocations.packs.sections import sections_of
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.core import clock
from apps.core.signing import BadDocument, open_document
from apps.policies import services
from apps.policies.models import Grant, Policy
from apps.policies.publishing.direct import apply_dates
from apps.policies.records import NewChangeSet
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences.numbers import number
from apps.series.daily_series import site_zone
from tests.examples import first
from tests.instants import AT
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
OCTOBER = {"from": "2026-10", "to": "2026-10"}
AMOUNTS = ("entitled", "used", "lent", "missed", "unclear", "borrowed")


def _uid(policy: Policy, path: str = "/") -> UUID:
    tree = load_tree(policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def _url(policy: Policy, name: str = "pack", path: str = "/", **more: str) -> str:
    return reverse(f"dashboard:{name}", kwargs={"policy": policy.slug, "uid": _uid(policy, path), **more})


@pytest.fixture
def eva(hall: Policy) -> User:
    return User.objects.create_superuser("eva", "", "correct horse battery")


@pytest.fixture
def admin(eva: User, client: Client) -> Client:
    sign_in(client, eva)
    return client


def _rest(user: User, path: str, **asked: str) -> Any:
    actor = Actor(user=user, via="page")
    _token, secret = make_token(NewToken(name="t", scopes=[Token.Scope.POLICIES_READ], user=user), at=AT, actor=actor)
    answer = Client().get(f"/api/v1/policies/hall/{path}", asked, headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 200, answer.content
    return answer.json()


def _give(policy: Policy) -> None:
    create_allocation(
        policy_slug=policy.slug,
        entry_uid=_uid(policy, "/physics"),
        terms=AllocationTerms(
            starts_on=date(2026, 10, 1), ends_on=date(2026, 11, 30), core_h=1_234.0, reason="Round 7."
        ),
        at=AT,
        actor=COMMAND,
    )


def _core_h(value: float) -> str:
    return number(value, 1 if 0 < value < 10 else 0)


def test_a_pack_has_the_numbers_of_statements_and_core_hours(hall: Policy, eva: User) -> None:
    _give(hall)
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    assert {row["path"] for row in pack["balance"]} == {"/physics", "/biology"}
    for row in pack["balance"]:
        lines = _rest(eva, "statements", entry=row["path"], month="2026-10")["results"]
        (line,) = [one for one in lines if one["entry"] == row["entry_uid"] and one["month"] == "2026-10"]
        for name in AMOUNTS:
            assert row[f"{name}_core_h"] == pytest.approx(line["figures"][name] / 3600, rel=1e-12), name
    table = _rest(eva, "allocations/table", **{"from": "2026-10-01", "to": "2026-10-31"})
    rows = {one["path"]: one for one in table["results"]}
    (physics,) = [one for one in pack["allocations"]["rows"] if one["path"] == "/physics"]
    assert physics["delivered_core_h"] == pytest.approx(rows["/physics"]["delivered_core_h"])
    assert physics["allocated_core_h"] == pytest.approx(1_234 * 31 / 61)
    assert [(one["path"], one["on"], one["is_covered"]) for one in pack["expiring"]] == [
        ("/physics", "2026-11-30", False)
    ]
    assert [one["reason"] for one in pack["changes"]] == ["r"]
    (held,) = pack["held_back"]
    assert (held["path"], held["by_path"]) == ("/physics", "/biology")
    (missed,) = [row["missed_core_h"] for row in pack["balance"] if row["path"] == "/physics"]
    assert held["core_h"] == pytest.approx(missed), "one sibling borrowed all of it"


def test_core_hours_are_expected_of_the_allocation_else_of_the_shares(hall: Policy, eva: User) -> None:
    _give(hall)
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    by_path = {row["path"]: row for row in pack["allocations"]["rows"]}
    names = {"/": "expected_core_h", "/physics": "due_core_h", "/biology": "expected_core_h"}
    (section,) = [one for one in sections_of(pack) if one.key == "allocations"]
    shown = dict(zip(by_path, (row[2] for row in section.rows), strict=True))
    assert shown == {path: core_h(by_path[path][name]) for path, name in names.items()}
    assert by_path["/physics"]["due_core_h"] != by_path["/physics"]["expected_core_h"]


@pytest.mark.parametrize("at_end", ["zero", "archive", 2.5, "keep"])
def test_expiring_entries_show_their_target_without_renewal(hall: Policy, eva: User, at_end: str | float) -> None:
    actor = Actor(user=eva, via="page")
    dates = {"op": "set_dates", "entry": "/physics", "dates": {"ends_on": "2026-12-20", "at_end": at_end}}
    draft = services.make_change_set(policy_slug=hall.slug, new=NewChangeSet(operations=[dates]), at=AT, actor=actor)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Until Christmas.", at=AT, actor=actor)
    (ending,) = [one for one in _rest(eva, "pack", **OCTOBER)["pack"]["expiring"] if one["kind"] == "shares_end"]
    assert (ending["path"], ending["on"]) == ("/physics", "2026-12-20")
    assert ending["target"] == pytest.approx(_target(hall, "/physics"))
    apply_dates(at=datetime(2026, 12, 21, 12, tzinfo=UTC), zone=site_zone())
    hall.refresh_from_db()
    if at_end == "keep":
        assert ending["target_after"] is None, "its shares stay"
    else:
        assert ending["target_after"] == pytest.approx(_target(hall, "/physics"))


def _target(policy: Policy, path: str) -> float:
    """Of an entry below the root, by the shares of the active revision; 0 where it is archived."""
    tree = load_tree(policy)
    shares = {tree.path(i): float(tree.shares[i]) for i in tree.children(0)}
    return shares.get(path, 0.0) / sum(shares.values())


def test_fairness_indices_follow_the_balance(hall: Policy, eva: User, admin: Client) -> None:
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    rows, fairness = pack["balance"], pack["fairness"]
    received = [row["used_core_h"] / row["entitled_core_h"] for row in rows]
    assert fairness["jain"] == pytest.approx(sum(received) ** 2 / (2 * sum(x * x for x in received)))
    used = sum(row["used_core_h"] for row in rows)
    beyond = sum(max(row["used_core_h"] - row["entitled_core_h"], 0.0) for row in rows)
    assert fairness["misplaced_percent"] == pytest.approx(100 * beyond / used)
    assert 0 < fairness["gini"] < 1
    assert number(fairness["jain"], 2) in admin.get(_url(hall), OCTOBER).content.decode()


def test_the_page_has_the_same_numbers_and_the_checksum_of_the_signed_file(
    hall: Policy, eva: User, admin: Client
) -> None:
    _give(hall)
    pack = _rest(eva, "pack", **OCTOBER)["pack"]
    page = read(admin.get(_url(hall), OCTOBER))
    for row in pack["balance"]:
        shown = [_core_h(row[f"{name}_core_h"]) for name in AMOUNTS]
        assert [row["path"], *shown] in _rows(page, "balance")
    opened = open_document(admin.get(_url(hall, "pack-file", form="json"), OCTOBER).content, trusted=None)
    assert opened.document["balance"] == pack["balance"]
    assert page.text('[aria-labelledby="pack-checksum"] code') == opened.digest
    assert opened.key.fingerprint in page.html


def _rows(page: Page, key: str) -> list[list[str]]:
    """The cells of each row of a section."""
    rows = page.all(f'[data-key="{key}"] tbody tr')
    return [[cell.text(strip=True) for cell in row.css("th, td")] for row in rows]


def test_addresses_of_the_former_pdf_name_the_page_that_is_printed(hall: Policy, admin: Client) -> None:
    gone = admin.get(_url(hall, "pack-file", form="pdf"), OCTOBER)
    link = read(gone, 410).one("main a.btn")
    assert (text_of(link), link.attributes["href"]) == (
        "Use this page instead",
        f"{_url(hall)}?from=2026-10&to=2026-10",
    )


def test_a_shared_link_to_the_former_pdf_leads_outsiders_to_the_page_of_the_same_link(
    hall: Policy, admin: Client
) -> None:
    address = _address(_share(admin, hall))
    for reader in (Client(), admin):
        gone = reader.get(f"{address}pack.pdf")
        page = read(gone, 410)
        assert "Print it to get a PDF." in text_of(page.one("main"))
        assert page.one("main a.btn").attributes["href"] == address
        assert b"physics" not in gone.content.replace(b"/policy/hall", b"")
        assert (gone["X-Robots-Tag"], gone["Referrer-Policy"]) == ("noindex, nofollow", "no-referrer")
        assert "no-store" in gone["Cache-Control"]
        assert reader.get(address).status_code == 200


def test_a_changed_number_breaks_the_signature(hall: Policy, admin: Client) -> None:
    signed = admin.get(_url(hall, "pack-file", form="json"), OCTOBER).content
    forged = re.sub(rb'"used_core_h":\d+', b'"used_core_h":1', signed, count=1)
    assert forged != signed
    with pytest.raises(BadDocument):
        open_document(forged, trusted=None)


def test_the_html_file_needs_nothing_else(hall: Policy, admin: Client) -> None:
    html = admin.get(_url(hall, "pack-file", form="html"), OCTOBER).content.decode()
    assert "<svg" in html
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert ".bar-1" in style
    assert 'counter(page) " / "' in style, "a style sheet isn’t read as HTML: nothing in it is escaped"
    assert not re.search(r"(?:src|href)=", html.replace("aria-", ""))
    assert admin.get(_url(hall, "pack-file", form="docx"), OCTOBER).status_code == 404


def _share(client: Client, policy: Policy, days: str = "7", path: str = "/", **more: str) -> Any:
    return client.post(_url(policy, path=path), {**OCTOBER, "step": "share", "days": days, **more})


def _address(answer: Any) -> str:
    return read(answer).text(".pack-address").removeprefix("http://testserver")


def test_a_link_shows_only_this_pack_until_it_expires(
    hall: Policy, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = _address(_share(admin, hall, reason="Board of December"))
    row = SharedPack.objects.get()
    assert row.ends_at == clock.now() + timedelta(days=7)
    assert address.encode() not in bytes(row.token_hash)
    assert AuditEvent.objects.get(verb="pack.shared").reason == "Board of December"
    _give(hall)  # what comes later isn't in it
    anybody = Client()
    shown = read(anybody.get(address))
    assert not shown.has("nav, form, script")
    assert {one for one in shown.values("href") if "css" not in one} == {f"{address}pack.json"}
    assert "Nothing ends within 90 days." in shown.html
    assert row.digest in shown.html
    assert anybody.get(_url(hall)).status_code == 302, "the link opens no other page"
    assert anybody.get(address[:-5] + "aaaa/").status_code == 404
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(days=7, seconds=1)).isoformat())
    for path in (address, f"{address}pack.json"):
        answer = anybody.get(path)
        assert answer.status_code == 410
        assert read(answer, 410).error_codes() == ["link_ended"]
        assert b"physics" not in answer.content


def test_a_link_is_revoked_at_once(hall: Policy, admin: Client) -> None:
    address = _address(_share(admin, hall))
    link = SharedPack.objects.get().pk
    answer = admin.post(_url(hall), {"step": "revoke", "link": str(link)})
    assert answer.status_code == 303
    assert Client().get(address).status_code == 410
    assert AuditEvent.objects.filter(verb="pack.link_revoked").count() == 1
    assert read(admin.get(_url(hall))).values("data-state", '[data-testid="pack-link"]') in ([], ["revoked"])
    assert admin.post(_url(hall), {"step": "revoke", "link": "999"}).status_code == 404


@pytest.mark.parametrize("days", first(2, ["0", "400", "-1", "soon", ""]))
def test_a_link_without_a_possible_end_is_refused(hall: Policy, admin: Client, days: str) -> None:
    assert _share(admin, hall, days).status_code == 422
    assert not SharedPack.objects.exists()


@pytest.mark.parametrize(
    "months",
    first(
        2,
        [
            {"from": "2026-13"},
            {"from": "2026-11", "to": "2026-10"},
            {"from": "2024-01", "to": "2026-10"},
            {"to": "2027-01"},
        ],
    ),
)
def test_impossible_periods_get_a_clear_answer(hall: Policy, admin: Client, months: dict[str, str]) -> None:
    answer = admin.get(_url(hall), months)
    assert answer.status_code == 422
    assert read(answer, 422).error_codes()


def test_users_have_no_pack_and_are_in_none(hall: Policy, admin: Client) -> None:
    assert admin.get(_url(hall, path="/physics/alice"), OCTOBER).status_code == 422
    whole = admin.get(_url(hall, "pack-file", path="/physics", form="json"), OCTOBER).content
    assert b"alice" not in whole
    assert b'"n_people_left_out":2' in whole


def test_suppressed_values_stay_suppressed_in_every_format(hall: Policy, client: Client) -> None:
    """A reader of sums: groups of two people are hidden from him in statements, and so on page and by link."""
    vera = User.objects.create_user("vera", "", "correct horse battery")
    Grant.objects.create(
        policy=hall, entry_uid=_uid(hall), user=vera, verbs=["view_aggregate", "publish"], reason="board", created_at=AT
    )
    sign_in(client, vera)
    signed = client.get(_url(hall, "pack-file", form="json"), OCTOBER).content
    pack = open_document(signed, trusted=None).document
    hidden = pack["balance"]
    assert hidden
    assert all(row["suppressed"] and row["used_core_h"] is None for row in hidden)
    assert all(row["delivered_core_h"] is None for row in pack["allocations"]["rows"])
    assert pack["held_back"] == []
    assert pack["fairness"] is None
    (shown,) = [row for row in _rows(read(client.get(_url(hall), OCTOBER)), "balance") if "physics" in row[0]]
    assert shown == ["/physics (not shown)", *["–"] * 6]
    address = _address(_share(client, hall))
    assert "/physics (not shown)" in read(Client().get(address)).html


def test_creating_links_needs_the_right_to_publish(hall: Policy, client: Client) -> None:
    sign_in(client, User.objects.create_user("nick", "", "correct horse battery"))
    assert _share(client, hall).status_code in {403, 404}
    assert not SharedPack.objects.exists()


def test_links_are_created_listed_and_revoked_by_rest(hall: Policy, eva: User) -> None:
    actor = Actor(user=eva, via="page")
    scopes = [Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE]
    _token, secret = make_token(NewToken(name="board", scopes=scopes, user=eva), at=AT, actor=actor)
    client, headers = Client(), {"authorization": f"Bearer {secret}"}
    links = "/api/v1/policies/hall/pack/links"
    asked = {**OCTOBER, "entry": "/physics", "days": 3, "reason": "For the board."}
    made = client.post(links, asked, content_type="application/json", headers=headers)
    assert made.status_code == 201, made.content
    row = SharedPack.objects.get()
    given = made.json()
    assert (given["id"], given["path"], given["sha256"]) == (row.pk, "/physics", row.digest)
    assert row.ends_at - row.created_at == timedelta(days=3)
    shared = Client().get(given["url"].partition("testserver")[2])
    assert row.digest in shared.content.decode()
    listed = client.get(links, {"entry": "/physics"}, headers=headers).json()["results"]
    assert [each["id"] for each in listed] == [row.pk]
    assert "url" not in listed[0]
    assert client.post(f"{links}/{row.pk}/revoke", headers=headers).status_code == 204
    assert Client().get(given["url"].partition("testserver")[2]).status_code == 410
    refused = client.post(links, {**asked, "days": 0}, content_type="application/json", headers=headers)
    assert refused.status_code == 400
