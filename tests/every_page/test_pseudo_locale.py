"""Texts of pages can be translated: in a made-up language no page breaks, and what stays in English is named here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext

from apps.web.figures.used_and_target import used_words_of
from tests.browser.conftest import Open
from tests.every_page.pseudo_locale import everything_translated, pseudo
from tests.every_page.test_every_page import PARTS, WIDTHS, pages_of, sign_in
from tests.examples import first
from tests.pages.page import Page
from tests.rights_world import World
from tests.worlds import (
    forget_process,
    fresh_process,  # noqa: F401 - fixture
)

UNREAD = "script, style, template, svg, pre, code, kbd, samp, textarea, .fig-table tbody, [translate=no]"
TRANSLATED = re.compile(r"⟦[^⟦⟧]*⟧")
SENTENCE = re.compile(r"\b[A-Za-z]{2,}(?: [a-z]{2,}){2,}\b")  # three words of which two begin small
# What people wrote in this world.
WRITTEN = re.compile(
    r"because of bob|more for physics|two hours of bob|bob is (here|hers)|the old box|The first tree|Chat of physics|"
    r"core-hours for him"
)


class Left(NamedTuple):
    """Texts that no catalog of translations has yet. pages, line: patterns of the pages' names and of their lines."""

    why: str
    pages: str
    line: str


# Nothing is added here: a new text is marked, as docs/developer.md says (Languages).
LEFT = (
    Left(
        "the table of docs/glossary.md has the meanings of words",
        ".*",
        r"^: (One number from 0|1 \+ the number of leaves|Shares divided by the sum|Whose usage its children|How far an"
        r" entry is|Over, under or on target|The number that divides|Percentage points)|^scope \(of an entry\)$",
    ),
    Left("shipped scenarios are files", r"policy-policy-lab-(scenarios|new-2)", "."),
    Left(
        "modules of algorithms and operators need no Django, and have names, formulas and remarks",
        r"jobs|jobs-calculator|policy-policy-(operators|algorithm)",
        ".",
    ),
    Left("domain services name what an export leaves out, and dependents", r"policy-policy-(files|remove)", "."),
    Left(
        "sentences are composed of parts, or stored when something happens",
        r"audit(-2)?|federation-(mounts-mount|usage-subscription-id)(-fetches)?",
        r"of the mapping|Version 2 of|Held for review|1 hour held",
    ),
)


@pytest.fixture
def pseudo_language() -> Iterator[None]:
    forget_process()
    with everything_translated():
        yield
    forget_process()


def in_english(html: str) -> set[str]:
    """Lines of a page with a sentence in English, but for what people wrote."""
    page = Page(html)
    for node in page.all(UNREAD):
        node.decompose()
    lines = page.one("body").text(separator="\n").splitlines()
    return {" ".join(line.split()) for line in lines if SENTENCE.search(_in_no_language(line))}


def _in_no_language(line: str) -> str:
    """What is left of a line without translations and data."""
    for each in (TRANSLATED, WRITTEN):
        line = each.sub("", line)
    return line


def is_left(page: str, line: str) -> bool:
    return any(re.fullmatch(each.pages, page) and re.search(each.line, line) for each in LEFT)


def test_placeholders_and_tags_stay_as_they_are() -> None:
    assert pseudo("<b>%(name)s</b> has {n} jobs, %(p).1f %%") == "⟦<b>%(name)s</b> hás {n} jóbs, %(p).1f %%·····⟧"


def test_each_way_to_a_translation_leads_to_the_language() -> None:
    lazy = gettext_lazy("Jobs")
    with everything_translated():
        texts = [gettext("Jobs"), str(lazy), pgettext("queue", "Jobs"), ngettext("Job", "Jobs", 2)]
    assert texts == ["⟦Jóbs·⟧"] * 4
    assert str(lazy) == "Jobs"


def test_texts_that_a_process_keeps_by_language_are_not_kept_for_english() -> None:
    """A share of the point that no other test asks for: its words are kept for all figures of the process."""
    point = np.array([0.123]), np.array([0.321]), ["under"], np.array([0.05])
    with everything_translated():
        (translated,) = used_words_of(*point)
    assert translated.startswith("⟦")
    assert "⟦" not in used_words_of(*point)[0]


def test_a_sentence_in_english_is_found() -> None:
    html = "<body><p>⟦Tránslátéd·⟧ and this is not<p>⟦Ás ít ís·⟧<p>bob is here<pre>as it is</pre></body>"
    assert in_english(html) == {"⟦Tránslátéd·⟧ and this is not"}
    assert not is_left("overview", "and this is not")
    assert is_left("jobs", "and this is not")


@pytest.mark.product
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_no_text_of_a_page_stays_in_english(world: World, pseudo_language: None, part: int) -> None:
    client = world.client("admin")
    left: dict[str, str] = {}
    for name, path, _row in pages_of(world, part):
        if name.startswith("help"):
            continue  # guides are documents in English
        answer = client.get(path)
        assert answer.status_code == 200, path
        for line in in_english(answer.content.decode()):
            if not is_left(name, line):
                left.setdefault(line, name)
    assert left == {}


@pytest.mark.deep
@pytest.mark.product
@pytest.mark.parametrize("part", range(PARTS))
def test_a_page_with_longer_texts_fits_a_phone(
    live_server: object, world: World, visit: Open, pseudo_language: None, part: int
) -> None:
    """Texts are 40 % longer, as in German or Finnish."""
    window = visit(width=WIDTHS[-1])
    sign_in(window, world, "admin")
    wide = {}
    for _name, path, _row in pages_of(world, part):
        window.go(path)
        if (over_px := window.overflow()) > 0:
            wide[path] = over_px
    assert "⟦" in window.page.content()
    assert wide == {}
