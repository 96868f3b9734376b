"""Elements of drawings are escaped as Django escapes them."""

from __future__ import annotations

from django.utils.html import format_html, format_html_join
from hypothesis import given
from hypothesis import strategies as st

from apps.web.figures.elements import element, joined

TEXTS = st.text(alphabet="<>&\"'`= abc\u00e9")


@given(TEXTS, TEXTS)
def test_texts_and_attributes_are_escaped(inner: str, value: str) -> None:
    expected = format_html('<text dx="4" text-anchor="{}">{}</text>', value, inner)
    assert element("text", inner, dx=4, text_anchor=value) == expected


@given(TEXTS)
def test_elements_are_kept_and_text_is_escaped(text: str) -> None:
    inner = element("tspan", text)
    assert element("text", inner) == format_html("<text>{}</text>", inner)
    assert joined([inner, text]) == format_html_join("", "{}", [(inner,), (text,)])  # type: ignore[list-item]
