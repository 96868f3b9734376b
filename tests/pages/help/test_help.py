"""Each page has its guide, each guide is rendered whole, and its links lead somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urldefrag

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from apps.core.errors import NotFound
from apps.pages.help.documents import DOCS, Document, contents, read_document
from apps.web.links.guides import Guide, address_of, guide_address, guide_of, guides, rest_of
from docsite.scopes import routes
from fairshare_web.urls import PAGES
from tests.each_case import each_case
from tests.pages.grid import Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

# Files, figures, what is only sent by a form, and programs: no pages that somebody reads.
NO_PAGES = {
    *("statements-csv", "notices-read", "notices-snooze", "notice-rule-remove", "webhook-act"),
    *(
        "notice-unsubscribe",
        "overview-figure",
        "overview-figure-form",
        "pin",
        "oidc-start",
        "sign-out",
        "sessions-end",
        "theme",
    ),
    *("my-figure", "claim-account", "withdraw-claim", "decay-figure"),
    *("policy-download", "member-detach", "member-claim", "terminal", "coverage", "source-pause", "source-resume"),
    *("source-collect", "data-quality-changed", "import-rejected-csv", "import-cancel", "import-confirm"),
    *(
        "change-operations",
        "change-comment",
        "change-compute",
        "change-back-test-compute",
        "audit-lines",
        "audit-table",
    ),
    *("allocations-board-csv", "allocations-csv", "charges-table", "convergence-days", "convergence-figure"),
    *("entry-convergence-figure", "entry-convergence-days", "live", "tree-figure"),
    *("federation-mount-act", "federation-grid-flow", "federation-grid-csv", "federation-subscription-act", "keys"),
    *(
        "scheduler-switch",
        "scheduler-switch-on",
        "scheduler-agreement",
        "scheduler-lag",
        "agent",
        "callout",
        "help",
        "help-page",
    ),
    *("signed-in", "overview-decide", "draft-shares"),
    *("policy-csv", "setup-here", "source-figure", "tree-csv"),
}
NAMES = sorted(path.stem for path in DOCS.rglob("*.md"))


def page_routes() -> Iterator[str]:
    for pattern in PAGES:
        parts = str(pattern.pattern).split("/")
        if pattern.name and not any(part.startswith("_") for part in parts):
            yield pattern.name


def test_every_page_has_a_guide() -> None:
    missing = {name for name in page_routes() if guide_of(name) is None} - NO_PAGES
    assert missing == set(), "name it in apps/web/links/guides.py, or in the guides of its plug-in"
    known = {name for guide in guides() for name in guide.routes.split()}
    assert known - set(page_routes()) == set(), "routes that are gone"


@each_case("guide", guides(), ids=lambda guide: guide.pages)
def test_a_guide_and_its_routes_exist(guide: Guide) -> None:
    served = {f"{method} {path}" for path, method, _scopes in routes()}
    for _text, place in guide.reads:
        name, _, anchor = place.partition(".md#")
        document = read_document(name.removesuffix(".md"))
        assert not anchor or f'id="{anchor}"' in document.html, place
    assert set(guide.rest) <= served


@each_case("name", NAMES)
def test_links_and_pictures_of_a_document_resolve(name: str) -> None:
    document = read_document(name)
    page = Page(f"<html><body>{document.html}</body></html>")
    for picture in page.all("img"):
        assert finders.find((picture.attributes["src"] or "").removeprefix("/static/")), picture.html
        assert picture.attributes["alt"]
    for link in page.all("a"):
        address, anchor = urldefrag(unquote(link.attributes["href"] or ""))
        if address.startswith("/static/"):
            assert finders.find(address.removeprefix("/static/")), address
        elif address.startswith("/help/") or (not address and anchor):
            other = _document(address, document)
            assert not anchor or f'id="{anchor}"' in other.html, (address, anchor)
        else:
            assert address.startswith(("https://", "http://127.0.0.1")), address
            assert link.attributes["rel"] == "noreferrer" or address.startswith("http://"), address


def _document(address: str, own: Document) -> Document:
    return own if not address else read_document(address.removeprefix("/help/").strip("/") or "index")


def test_every_document_is_in_the_contents() -> None:
    listed = [name for part in contents() for name, _title in part.documents]
    assert sorted(listed) == NAMES


def test_an_unknown_document_is_refused() -> None:
    for name in ("nothing", "../README", "INDEX", "a" * 61, ""):
        with pytest.raises(NotFound):
            read_document(name)
    with pytest.raises(ValueError, match="no page of docs"):
        address_of("../README.md")


@pytest.mark.django_db
def test_a_page_links_to_its_guide_and_the_guide_to_rest(grid: Grid) -> None:
    client = sign_in(Client(), grid.alice)
    page = read(client.get(reverse("pages:my-priority")))
    assert page.one("#help").attributes["href"] == guide_address("my-priority") == "/help/user/#how-to-read-it"
    guide = read(client.get("/help/user/"))
    assert guide.item("guide").attributes["data-key"] == "user"
    assert guide.texts("[data-testid=rest] code") == list(rest_of("user.md"))
    assert "GET me/explain" in rest_of("user.md")
    assert client.get("/help/nothing/").status_code == 404
