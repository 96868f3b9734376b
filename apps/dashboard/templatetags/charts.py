"""Template tags that draw figures as SVG in Python: a template would be ten times slower for a dozen panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.dashboard.figures.day_lines import Sparkline
from apps.dashboard.figures.panel import Frame, Panel, Span

register = template.Library()


@register.simple_tag
def panel_chart(drawn: Panel, label: str, extent: dict[str, str] | None = None) -> SafeString:
    """{% panel_chart line.panel line.label line.extent %}; extent: first day, step and top of the axis."""
    return format_html(
        '<svg class="chart panel-chart" viewBox="0 0 {} {}" role="img" aria-label="{}"{}>{}</svg>',
        drawn.frame.width,
        drawn.frame.height,
        label,
        format_html_join("", ' data-{}="{}"', (extent or {}).items()),
        _joined(_panel_parts(drawn)),
    )


def _panel_parts(drawn: Panel) -> Iterator[SafeString]:
    """SVG elements in painting order: grid, shading, band, target, publications, line."""
    frame = drawn.frame
    left, right, top, bottom = (_px(one) for one in (frame.left, frame.right, frame.top, frame.bottom))
    for tick in drawn.share_ticks:
        kind = "axis" if tick.text == "0" else "grid"
        yield format_html('<path class="{}" d="M{} {}H{}"/>', kind, left, _px(tick.at), right)
        where = (_px(frame.left - 5), _px(tick.at + 3.5))
        yield format_html('<text x="{}" y="{}" text-anchor="end">{}</text>', *where, tick.text)
    for kind, spans in (("before", drawn.before), ("idle", drawn.idle), ("idle inferred", drawn.inferred)):
        yield from _shades(kind, spans, frame)
    for box in drawn.bands:
        sizes = map(_px, (box.x, box.y, box.width, box.height))
        yield format_html('<rect class="band" x="{}" y="{}" width="{}" height="{}"/>', *sizes)
    yield from _shades("gap", drawn.gaps, frame)
    for path in drawn.targets:
        yield format_html('<path class="target" d="{}"/>', path)
    for mark in drawn.marks:
        x = _px(mark.x)
        yield format_html(
            '<g><title>{}</title><path class="pub" d="M{} {}V{}"/><circle class="pubdot" cx="{}" cy="{}" r="2.5"/></g>',
            mark.label,
            x,
            top,
            bottom,
            x,
            top,
        )
    for span in drawn.starved:
        sizes = map(_px, (span.x, frame.bottom - 4, span.width))
        yield format_html('<rect class="starved" x="{}" y="{}" width="{}" height="4"/>', *sizes)
    yield from _line(drawn)
    for tick in drawn.day_ticks:
        low = frame.height - 4
        yield format_html('<text x="{}" y="{}" text-anchor="{}">{}</text>', _px(tick.at), low, tick.anchor, tick.text)


def _line(drawn: Panel) -> Iterator[SafeString]:
    state = drawn.state if drawn.state in {"over", "under"} else "on"
    for points in drawn.lines:
        yield format_html('<polyline class="line {}" points="{}"/>', state, points)
    ends = [(*dot, "1.8") for dot in drawn.dots] + ([(*drawn.end, "3")] if drawn.end else [])
    for x, y, radius in ends:
        yield format_html('<circle class="dot-end {}" cx="{}" cy="{}" r="{}"/>', state, _px(x), _px(y), radius)


def _shades(kind: str, spans: Iterable[Span], frame: Frame) -> Iterator[SafeString]:
    for span in spans:
        sizes = map(_px, (span.x, frame.top, max(span.width, 0.8), frame.bottom - frame.top))
        yield format_html('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>', kind, *sizes)


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
        _joined(parts),
    )


def _joined(parts: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))


def _px(value: float) -> str:
    """A number with a decimal point, in any language."""
    return f"{value:g}"
