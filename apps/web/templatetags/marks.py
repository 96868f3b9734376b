"""Template tags for icons, bars and balances, and filters that format numbers; templates never format numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django import template
from django.conf import settings
from django.template.base import render_value_in_context
from django.templatetags.static import static
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import Bullet, State
from apps.web.texts import decay_phrases

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
@lru_cache(maxsize=512)  # a tree page has a thousand icons and two dozen different ones
def icon(name: str, classes: str = "") -> SafeString:
    """{% icon "check" %} or {% icon "check" "s ok" %}: an icon of the sprite, hidden from screen readers."""
    return format_html(
        '<svg class="{}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        f"i {classes}".strip(),
        asset("icons.svg"),
        name,
    )


@register.simple_tag(takes_context=True)
def from_to(context: template.Context, before: Any, after: Any) -> SafeString:
    """{% from_to row.before row.after %}: a value that became another one, or is new where `before` is empty."""
    old, new = render_value_in_context(before, context), render_value_in_context(after, context)
    if not old:
        return format_html("<b>{}</b>", new)
    return format_html('<s>{}</s><span class="drawn to"> {} </span><b>{}</b>', old, _("to"), new)


@register.simple_tag
def asset(name: str) -> str:
    """{% asset "favicon.svg" %}: URL of a static file, even if static files were not collected.

    Error pages use it, because they must render in that case too.
    """
    try:
        return static(name)
    except ValueError:  # no manifest, or none that names it
        return f"{settings.STATIC_URL}{name}"


@register.filter
def person(username: str) -> str:
    """Display name of a username."""
    return display_name(username)


@register.filter
def kind_icon(kind: str) -> str:
    return KIND_ICONS.get(kind, "folder")


@register.filter
def kind_label(kind: str) -> str:
    """Label of an entry kind with a capital first letter; "VO" for vo."""
    return "VO" if kind == "vo" else kind[:1].upper() + kind[1:]


@register.simple_tag
def bullet(bar: Bullet | None, label: str = "") -> str:
    """{% bullet row.bar %} beside its numbers; {% bullet row.bar row.label %} without them.

    Drawn in Python: a tree page has hundreds of bars, and a template would be ten times slower.
    """
    if bar is None:
        return ""
    role = ("role", "img", "aria-label", label) if label else ("aria-hidden", "true", "focusable", "false")
    return format_html(
        '<svg class="bullet {}" width="{}" height="16" viewBox="0 0 {} 16" preserveAspectRatio="none" {}="{}" {}="{}">'
        "{}</svg>",
        bar.state.value,
        bar.width,
        bar.width,
        *role,
        format_html_join("", "{}", ((part,) for part in _parts(bar))),
    )


def _parts(bar: Bullet) -> Iterator[SafeString]:
    """SVG elements in painting order: track, band, bar, earlier target, target."""
    yield format_html(
        '<rect class="{}" x="1" y="6" width="{}" height="4" rx="2"/>',
        "none" if bar.state is State.NO_DATA else "track",
        bar.track_width,
    )
    if bar.band_x is not None:
        yield format_html(
            '<rect class="band" x="{}" y="2" width="{}" height="12" rx="1.5"/>', bar.band_x, bar.band_width
        )
    if bar.bar_width is not None:
        yield format_html('<rect class="bar" x="1" y="5" width="{}" height="6" rx="1"/>', bar.bar_width)
    if bar.over_path:
        yield format_html('<path class="bar" d="{}"/>', bar.over_path)
    if bar.was_x is not None:
        yield format_html('<rect class="was" x="{}" y="2" width="2" height="12"/>', bar.was_x)
    if bar.tick_x is not None:
        yield format_html('<rect class="tick" x="{}" y="1" width="2" height="14"/>', bar.tick_x)


@register.simple_tag
def balance(value: Balance) -> SafeString:
    """State icon, number and word of a balance."""
    coloured = f"bal {value.state.value}" if value.state in {State.OVER, State.UNDER} else "bal"
    mark = '<span class="{}" data-testid="balance" data-state="{}">{}{}</span>'
    return format_html(mark, coloured, value.state.value, icon(value.icon, "solid"), value.text)


@register.simple_tag
def when(at: datetime | None, form: str = "time") -> str:
    """{% when at %} → 12:04 CET or "1 Dec, 12:04 CET"; the tooltip has the day, the seconds and the zone.

    form: "day" → 1 Dec; in rows, which the page's zone holds for, "row" → 1 Dec, 12:04 and below a day "clock" → 12:04.


    A template of its own would put its final newline before a full stop that follows.
    """
    if at is None:
        return "–"
    now = clock.now()
    here = timezone.localtime(at)
    text = {
        "day": lambda: presentation.day(at, now),
        "row": lambda: presentation.time_in_list(at, now),
        "clock": lambda: formats.date_format(here, "H:i"),
        "time": lambda: presentation.clock_time(at, now),
    }[form]()
    zone = here.strftime("%Y-%m-%d %H:%M:%S %Z")
    return format_html('<time datetime="{}" title="{}">{}</time>', here.isoformat(), zone, text)


@register.filter
def percent(value: float | None) -> str:
    return numbers.percent(value)


@register.filter
def signed(value: float | None) -> str:
    return numbers.signed(value)


@register.filter
def factor(value: float | None) -> str:
    return numbers.factor(value)


@register.filter
def shares(value: float | None) -> str:
    return presentation.shares(value)


@register.filter
def shares_short(value: float | None) -> str:
    return presentation.shares_short(value)


@register.filter
def signed_hours(seconds: float) -> str:
    return presentation.signed_hours(seconds)


@register.filter
def hours(amount_s: float | None) -> str:
    return presentation.hours(amount_s)


@register.filter
def hour_unit(metric: Mapping[str, Any]) -> str:
    return presentation.hour_unit(metric)


@register.filter
def hour_heading(metric: Mapping[str, Any]) -> str:
    return presentation.hour_heading(metric)


@register.filter
def number(value: float, decimals: int = 0) -> str:
    return numbers.number(value, decimals) if decimals else numbers.count(value)


@register.filter
def as_typed(value: float) -> str:
    return numbers.as_typed(value)


@register.filter
def plural_count(value: float) -> int:
    """The whole number that chooses between singular and plural: 1 CPU, 0.5 and 1.5 CPUs."""
    return int(value) if float(value).is_integer() else 2


@register.filter
def age(seconds: float) -> str:
    return presentation.age(seconds)


@register.filter
def duration(seconds: float) -> str:
    return presentation.duration(seconds)


@register.filter
def decay_phrase(window: dict[str, Any]) -> str:
    return decay_phrases.decay_phrase(window)


@register.filter
def initials(name: str) -> str:
    """Initials of a name: EK for Eva Kling, EV for eva."""
    words = name.split()
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else name[:2]
    return letters.upper()


@register.filter
def times(count: int) -> range:
    """Range of `count` to loop over."""
    return range(max(0, int(count)))


@register.filter
def at(items: Sequence[Any], index: int) -> Any:
    """{% with column=columns|at:forloop.counter0 %}: the item at this index of another list."""
    return items[index]


@register.filter
def plain(value: float) -> str:
    """A number for an SVG attribute, independent of the page's language."""
    return f"{value:g}"


@register.filter
def utc_text(at: datetime) -> str:
    """Instant in UTC, such as 2027-01-01 08:00 UTC, shown beside the local time."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


@register.filter
def trail(shell: Any, crumbs: Any) -> Any:
    """{% for crumb in shell|trail:crumbs %}: the breadcrumbs that the frame shows of those of a page."""
    return shell.trail(crumbs) if crumbs else ()
