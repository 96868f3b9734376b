"""Drawings as tags: a page has a dozen panels of hundreds of days, and a template would cost ten times as much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.figures.icicle import Icicle, Sector
from apps.dashboard.figures.panel import Frame, Panel, Span
from apps.dashboard.figures.sparkline import Sparkline

register = template.Library()


@register.simple_tag
def panel_chart(drawn: Panel, label: str, readout: dict[str, str] | None = None) -> SafeString:
    """{% panel_chart line.panel line.label line.readout %}; `readout` is what a script tells day by day."""
    data = "".join(f' data-{name}="{conditional_escape(value)}"' for name, value in (readout or {}).items())
    return mark_safe(  # noqa: S308 - numbers, and texts that are escaped
        f'<svg class="chart panel-chart" viewBox="0 0 {drawn.frame.width} {drawn.frame.height}" role="img"'
        f' aria-label="{conditional_escape(label)}"{data}>{"".join(_panel_parts(drawn))}</svg>'
    )


def _panel_parts(drawn: Panel) -> Iterator[str]:
    """In the order of painting: grid, shading, band, target, rules, line."""
    frame = drawn.frame
    left, right, top, bottom = frame.left, frame.right, frame.top, frame.bottom
    for tick in drawn.across:
        kind = "axis" if tick.text == "0" else "grid"
        yield f'<path class="{kind}" d="M{left:g} {tick.at:g}H{right:g}"/>'
        yield f'<text x="{left - 5:g}" y="{tick.at + 3.5:g}" text-anchor="end">{tick.text}</text>'
    for kind, spans in (("before", drawn.before), ("idle", drawn.idle), ("idle inferred", drawn.inferred)):
        yield from _shades(kind, spans, frame)
    for box in drawn.bands:
        yield f'<rect class="band" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"/>'
    yield from _shades("gap", drawn.gaps, frame)
    for path in drawn.targets:
        yield f'<path class="target" d="{path}"/>'
    for mark in drawn.marks:
        title = conditional_escape(mark.label)
        yield f'<g><title>{title}</title><path class="pub" d="M{mark.x:g} {top:g}V{bottom:g}"/>'
        yield f'<circle class="pubdot" cx="{mark.x:g}" cy="{top:g}" r="2.5"/></g>'
    for span in drawn.starved:
        yield f'<rect class="starved" x="{span.x:g}" y="{bottom - 4:g}" width="{span.width:g}" height="4"/>'
    state = drawn.state if drawn.state in {"over", "under"} else "on"
    for points in drawn.lines:
        yield f'<polyline class="line {state}" points="{points}"/>'
    for x, y in drawn.dots:
        yield f'<circle class="dot-end {state}" cx="{x:g}" cy="{y:g}" r="1.8"/>'
    if drawn.end:
        yield f'<circle class="dot-end {state}" cx="{drawn.end[0]:g}" cy="{drawn.end[1]:g}" r="3"/>'
    for tick in drawn.along:
        text = conditional_escape(tick.text)
        yield f'<text x="{tick.at:g}" y="{frame.height - 4}" text-anchor="{tick.anchor}">{text}</text>'


def _shades(kind: str, spans: tuple[Span, ...], frame: Frame) -> Iterator[str]:
    for span in spans:
        yield (
            f'<rect class="{kind}" x="{span.x:g}" y="{frame.top:g}" width="{max(span.width, 0.8):g}"'
            f' height="{frame.bottom - frame.top:g}"/>'
        )


@register.simple_tag
def sparkline(drawn: Sparkline | None) -> SafeString | str:
    """{% sparkline line.trend %}: hidden from screen readers, for the numbers stand beside it."""
    if drawn is None:
        return ""
    parts = "" if drawn.target_y is None else f'<path class="t" d="M1 {drawn.target_y:g}H63"/>'
    parts += "".join(f'<polyline points="{points}"/>' for points in drawn.points)
    if drawn.end:
        parts += f'<circle cx="{drawn.end[0]:g}" cy="{drawn.end[1]:g}" r="1.75"/>'
    return format_html(
        '<svg class="spark {}" width="64" height="18" viewBox="0 0 64 18" aria-hidden="true" focusable="false">'
        "{}</svg>",
        drawn.state,
        mark_safe(parts),  # noqa: S308 - numbers
    )


@register.simple_tag
def icicle(drawn: Icicle, label: str) -> SafeString:
    """{% icicle figure label %}: every sector is a link that fills the picture with it, or chooses it."""
    parts = "".join(_sector(sector) for sector in drawn.sectors)
    chosen = drawn.chosen
    if chosen is not None:
        parts += (
            f'<g class="sel" aria-hidden="true"><rect x="{chosen.x + 1:g}" y="{chosen.y + 1:g}"'
            f' width="{chosen.width - 2:g}" height="{max(chosen.height - 2, 1):g}" rx="3"/></g>'
        )
    return mark_safe(  # noqa: S308 - numbers, and texts that are escaped
        f'<svg class="ice" viewBox="0 0 {drawn.width} {drawn.height}" width="{drawn.width}" height="{drawn.height}"'
        f' role="group" aria-label="{conditional_escape(label)}">{parts}</svg>'
    )


def _sector(one: Sector) -> str:
    escaped: dict[str, Any] = {
        name: conditional_escape(getattr(one, name)) for name in ("label", "url", "name", "words", "step")
    }
    texts = ""
    if one.name and one.is_turned:
        x, y = one.x + one.width / 2 + 4, one.y + one.height / 2
        texts += f'<text x="{x:g}" y="{y:g}" text-anchor="middle" transform="rotate(-90 {x:g} {y:g})">'
        texts += f"{escaped['name']}</text>"
    elif one.name:
        texts += f'<text x="{one.x + 8:g}" y="{one.name_y:g}">{escaped["name"]}</text>'
    if one.words:
        anchor = ' text-anchor="end"' if one.is_beside else ""
        texts += f'<text class="d" x="{one.words_x:g}" y="{one.words_y:g}"{anchor}>{escaped["words"]}</text>'
    shape = (
        f'<rect class="{escaped["step"]}" x="{one.x:g}" y="{one.y:g}" width="{one.width:g}"'
        f' height="{one.height:g}" rx="3"/>'
    )
    title = f"<title>{escaped['label']}</title>"  # not aria-label, which would have to hold every written letter
    if not one.url:
        return f"<g>{title}{shape}{texts}</g>"
    return f'<a href="{escaped["url"]}">{title}{shape}{texts}</a>'
