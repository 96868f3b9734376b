"""Tags for icons, bars and balance, and filters for numbers. Pages never format a number themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps import clock
from apps.dashboard import presentation
from apps.dashboard.figures.bullet import Bullet
from apps.dashboard.presentation import Balance

register = template.Library()

KIND_ICONS = {
    "root": "sitemap",
    "vo": "building-community",
    "project": "folder",
    "group": "users-group",
    "user": "user",
    "mount": "world",
    "reserve": "lock",
}


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """{% icon "check" %}, {% icon "check" "s ok" %}: a symbol of the sprite, hidden from screen readers."""
    return format_html(
        '<svg class="{}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        f"i {classes}".strip(),
        static("icons.svg"),
        name,
    )


@register.filter
def kind_icon(kind: str) -> str:
    return KIND_ICONS.get(kind, "folder")


@register.filter
def kind_label(kind: str) -> str:
    """Kinds are free labels; at the start of a sentence they read as one."""
    return "VO" if kind == "vo" else kind[:1].upper() + kind[1:]


@register.inclusion_tag("dashboard/_bullet.html")
def bullet(bar: Bullet | None, label: str = "") -> dict[str, Any]:
    """{% bullet row.bar %} beside its numbers; {% bullet row.bar row.label %} when it stands alone."""
    return {"bar": bar, "label": label}


@register.inclusion_tag("dashboard/_balance.html")
def balance(value: Balance) -> dict[str, Any]:
    return {"value": value}


@register.inclusion_tag("dashboard/_when.html")
def when(at: datetime | None, form: str = "time") -> dict[str, Any]:
    """{% when at %} → 12:04 or "1 Dec, 12:04"; {% when at "day" %} → 1 Dec. Zone in the tooltip."""
    if at is None:
        return {"at": None}
    now = clock.now()
    text = presentation.day(at, now) if form == "day" else presentation.clock_time(at, now)
    return {"at": at, "text": text, "zone": timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S %Z")}


@register.filter
def percent(value: float | None) -> str:
    return presentation.percent(value)


@register.filter
def signed(value: float | None) -> str:
    return presentation.signed(value)


@register.filter
def factor(value: float | None) -> str:
    return presentation.factor(value)


@register.filter
def shares(value: float | None) -> str:
    return presentation.shares(value)


@register.filter
def core_hours(value: float | None) -> str:
    return presentation.core_hours(value)


@register.filter
def number(value: int) -> str:
    return presentation.count(value)


@register.filter
def age(seconds: float) -> str:
    return presentation.age(seconds)


@register.filter
def duration(seconds: float) -> str:
    return presentation.duration(seconds)


@register.filter
def initials(name: str) -> str:
    """EK for Eva Kling, EV for eva."""
    words = name.split()
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else name[:2]
    return letters.upper()


@register.filter
def times(count: int) -> range:
    """Something to loop over: one guide per ancestor."""
    return range(max(0, int(count)))
