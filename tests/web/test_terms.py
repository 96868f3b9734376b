"""Words that pages explain: the glossary defines them, a page explains each once, also without scripts."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from django.conf import settings
from django.template import Context, Template
from django.test import RequestFactory

from apps.pages.help.documents import read_document
from apps.web.texts.glossary import terms

_USE = re.compile(r"""{% term "([^"]+)" """)


def rendered(text: str, **headers: str) -> str:
    request = RequestFactory().get("/", headers=headers)
    return Template("{% load components %}" + text).render(Context({"request": request}))


def test_every_term_that_a_template_explains_is_in_the_glossary() -> None:
    folder = Path(settings.BASE_DIR, "templates")
    used = {name for path in folder.rglob("*.html") for name in _USE.findall(path.read_text(encoding="utf-8"))}
    assert used, "no template explains a word"
    assert used <= set(terms())


def test_a_term_is_explained_at_its_first_use_and_its_meaning_stands_once_on_the_page() -> None:
    page = rendered('{% term "target" "Target" %} {% term "target" "Target" %} {% term_meanings %}')
    assert page.count("<button") == page.count("popover role") == 1
    opened = re.findall('popovertarget="([^"]+)"', page)
    assert re.findall('id="([^"]+)" popover', page) == opened
    assert terms()["target"].meaning in unescape(page)
    assert f'href="{terms()["target"].url}"' in page


def test_a_word_of_a_sentence_is_explained_outside_tags_and_once_a_page() -> None:
    sentence = '{% explaining "points" %}<b title="2 points">2 Points</b> over, 1 points{% endexplaining %}'
    page = rendered(sentence + " " + sentence)
    assert page.count('title="2 points">2 <button') == 1
    assert page.count("<button") == 1
    assert re.sub("<[^>]+>", "", page) == "2 Points over, 1 points 2 Points over, 1 points"
    assert rendered('{% explaining "points" %}{{ text }}{% endexplaining %}').strip() == ""


def test_a_sentence_stays_escaped() -> None:
    request = RequestFactory().get("/")
    text = Template('{% load components %}{% explaining "points" %}{{ text }}{% endexplaining %}')
    assert "&lt;i&gt;" in text.render(Context({"request": request, "text": "<i> 2 points"}))


def test_a_fragment_brings_the_meanings_of_its_terms() -> None:
    part = rendered('{% term "target" %}', **{"HX-Request": "true"})
    assert re.findall('id="([^"]+)" popover', part) == re.findall('popovertarget="([^"]+)"', part)


def test_meanings_are_sentences_without_marks() -> None:
    odd = [each.name for each in terms().values() if re.search(r"[`*\[\]]|\.\.$", each.meaning)]
    assert odd == []


def test_the_link_of_each_meaning_leads_to_its_row_of_the_glossary() -> None:
    page = str(read_document("glossary").html)
    assert [each.name for each in terms().values() if f'id="{each.anchor}"' not in page] == []
