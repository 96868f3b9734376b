"""Marked matches of a search."""

from __future__ import annotations

from django import template
from django.utils.html import format_html

register = template.Library()


@register.filter
def marked(text: str, query: str) -> str:
    """{{ item.title|marked:query }}: the first match of the query in <mark>."""
    at = text.lower().find(query.lower()) if query else -1
    if at < 0 or len(text.lower()) != len(text):
        return text
    end = at + len(query)
    return format_html("{}<mark>{}</mark>{}", text[:at], text[at:end], text[end:])
