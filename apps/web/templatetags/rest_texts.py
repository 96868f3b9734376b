"""Filters for texts of the OpenAPI document: paragraphs, and `code` as code."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def paragraphs(text: str) -> SafeString:
    return format_html_join("", "<p>{}</p>", ((coded(each),) for each in text.split("\n\n") if each.strip()))


@register.filter
def coded(text: str) -> SafeString:
    pieces = enumerate(text.split("`"))
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", piece) if i % 2 else piece,) for i, piece in pieces)
    )
