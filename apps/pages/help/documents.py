"""Pages of docs/ rendered as pages of this site, from the same files that `make docs` builds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import yaml
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

from apps.core.errors import NotFound
from apps.web.links.guides import HOME, PLACE, address_of, rest_of
from apps.web.texts.glossary import anchor_of, terms

DOCS = Path(settings.BASE_DIR, "docs")
_NAVIGATION = Path(settings.BASE_DIR, "mkdocs.yml")
_NAME = re.compile(r"[a-z0-9-]{1,60}")
_FILES = ("pictures/", "examples/", "monitoring/")  # static files below help/, see STATICFILES_DIRS


@dataclass(frozen=True, slots=True)
class Document:
    """A page of docs/: title, HTML without the title, and (anchor, text) of its headings."""

    name: str
    title: str
    html: SafeString
    headings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """A section of the table of contents, with (document name, title) pairs; title is empty for pages outside a
    section.
    """

    title: str
    documents: tuple[tuple[str, str], ...]


def read_document(name: str) -> Document:
    """A page of docs/ by its name.

    Raises:
        NotFound: docs/ has no such page.
    """
    places = (DOCS / f"{name}.md", DOCS / "appendices" / f"{name}.md") if _NAME.fullmatch(name) else ()
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise NotFound(f"There is no guide {name[:60]!r}.")
    return _rendered(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _rendered(path: Path, _changed_ns: int) -> Document:
    """Docs are files of the release, written by its authors: their HTML is trusted."""
    text = path.read_text(encoding="utf-8")
    head, _, body = text.partition("\n")
    title = head.removeprefix("# ").strip()
    renderer = Markdown(extensions=["tables", "fenced_code", "sane_lists", "toc", _SiteLinks()], output_format="html")
    html = renderer.convert(body).replace("<pre>", '<pre tabindex="0">')  # scrollable by keyboard
    tokens: list[dict[str, Any]] = getattr(renderer, "toc_tokens")  # noqa: B009 - set by the extension `toc`
    return Document(path.stem, title, mark_safe(html), tuple(_headings(tokens)))  # noqa: S308 - our own files


def _headings(tokens: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for token in tokens:
        if token["level"] == 2:
            yield token["id"], unescape(strip_tags(token["name"]))
        yield from _headings(token["children"])


@lru_cache(maxsize=1)
def contents() -> tuple[Contents, ...]:
    """The navigation of mkdocs.yml, limited to pages that exist in docs/."""
    entries = yaml.safe_load(_NAVIGATION.read_text(encoding="utf-8"))["nav"]
    parts: list[Contents] = []
    for entry in entries:
        for title, inside in entry.items():
            pairs = [(title, inside)] if isinstance(inside, str) else [pair for item in inside for pair in item.items()]
            kept = tuple((Path(place).stem, text) for text, place in pairs if (DOCS / place).is_file())
            if isinstance(inside, str) and parts and not parts[-1].title:
                parts[-1] = Contents("", parts[-1].documents + kept)
            else:
                parts.append(Contents("" if isinstance(inside, str) else title, kept))
    return tuple(parts)


class _SiteLinks(Extension):  # type: ignore[misc]  # the library has no types
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(_LinkRewriter(md), "places", 5)


class _LinkRewriter(Treeprocessor):  # type: ignore[misc]
    """Rewrites links to pages of this site and makes wide elements scrollable, also by keyboard."""

    def run(self, root: Element) -> None:
        for parent in list(root.iter()):
            for at, child in enumerate(list(parent)):
                if child.tag == "a":
                    _link(child)
                elif child.tag == "img":
                    child.set("src", static(f"help/{_file(child.get('src', ''))}"))
                elif child.tag == "table":
                    parent[at] = _scrolled(child)


def _file(place: str) -> str:
    """Path below docs/ of a file that a page or an appendix names."""
    return place.removeprefix("../")


def _link(link: Element) -> None:
    place = link.get("href", "")
    if PLACE.fullmatch(place):
        link.set("href", address_of(place))
    elif _file(place).startswith(_FILES):
        link.set("href", static(f"help/{_file(place)}"))
    elif place.startswith("../"):  # a file of the repository, which may be missing in an installation
        link.tag = "span"
        link.attrib.clear()
    elif place.startswith("https://"):
        link.set("rel", "noreferrer")


def _scrolled(table: Element) -> Element:
    wrap = Element("div", {"class": "table-wrap", "tabindex": "0", "role": "region"})
    wrap.set("aria-label", ", ".join(("".join(head.itertext())) for head in table.iter("th")) or "-")
    wrap.tail, table.tail = table.tail, None
    wrap.append(table)
    for cells in (list(row) for row in table.iter("tr")):
        name = "".join(cells[0].itertext())
        if len(cells) == 2 and name in terms():  # so that a page which uses the word can link to its meaning
            cells[0].set("id", anchor_of(name))
    for head in table.iter("th"):
        head.set("scope", "col")
        if not "".join(head.itertext()).strip():
            SubElement(head, "span", {"class": "sr"}).text = "-"
    return wrap


@require_safe
def show_help(request: HttpRequest, name: str = HOME) -> HttpResponse:
    document = read_document(name)
    crumbs = [{"label": _("Help"), "url": reverse("pages:help")}, {"label": document.title}]
    context = {
        "document": document,
        "parts": contents(),
        "rest": rest_of(f"{name}.md"),
        "crumbs": crumbs[-1:] if name == HOME else crumbs,
        "is_without_numbers": True,
    }
    return render(request, "pages/help/help.html", context)
