"""The sparkline as a template tag: a tree page has hundreds of them, and a template would be ten times slower."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join

from apps.web.svg.sparkline import Sparkline

register = template.Library()


@register.simple_tag
def sparkline(drawn: Sparkline | None) -> str:
    """{% sparkline line.trend %}: hidden from screen readers, because the numbers are beside it."""
    if drawn is None:
        return ""
    parts = [format_html('<path class="t" d="M1 {}H63"/>', _px(drawn.target_y))] if drawn.target_y is not None else []
    parts += [format_html('<polyline points="{}"/>', points) for points in drawn.points]
    if drawn.end:
        parts.append(format_html('<circle cx="{}" cy="{}" r="1.75"/>', *map(_px, drawn.end)))
    return format_html(
        '<svg class="spark {}" width="64" height="18" viewBox="0 0 64 18" aria-hidden="true" focusable="false">'
        "{}</svg>",
        drawn.state,
        format_html_join("", "{}", ((part,) for part in parts)),
    )


def _px(value: float) -> str:
    """A number with a decimal point, in any language."""
    return f"{value:g}"
