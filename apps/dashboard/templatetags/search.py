"""Filters of search: the matching part of a name marked, and the two keys that open a page."""

from __future__ import annotations

from django import template
from django.utils.html import format_html

from apps.dashboard.search.shortcuts import KEYS_COOKIE, shortcut_of
from apps.dashboard.shell.navigation import PolicyLink

register = template.Library()


@register.filter
def marked(text: str, query: str) -> str:
    """{{ item.title|marked:query }}: the first place of the query as <mark>."""
    at = text.lower().find(query.lower()) if query else -1
    if at < 0 or len(text.lower()) != len(text):
        return text
    end = at + len(query)
    return format_html("{}<mark>{}</mark>{}", text[:at], text[at:end], text[end:])


@register.filter
def shortcut(url: str, policy: PolicyLink | None) -> str:
    """{{ item.url|shortcut:shell.policy }}: "g t", or nothing."""
    return shortcut_of(url, policy.slug if policy else "")


@register.simple_tag(takes_context=True)
def keys_state(context: template.Context) -> str:
    """{% keys_state %}: off, where this browser switched single keys off; else on."""
    request = context.get("request")
    return "off" if request is not None and request.COOKIES.get(KEYS_COOKIE) == "off" else "on"
