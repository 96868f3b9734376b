"""The fair line as an SVG of the server: the axis, and a list of links that are circles. The page's script moves them.

Places along the axis are parts of the width, so that one picture fits every window; heights are pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.pages.convergence.figures.fair_layout import WIDE, Room, Spot, part_of
from apps.pages.convergence.figures.fair_line import (
    FairLine,
    MemberLinks,
    band_places,
    factor_text,
    spots_of,
    texts_beside,
    tick_places,
)
from apps.series.convergence.query import Member
from apps.web.figures.elements import element, joined
from apps.web.figures.used_and_target import used_text

TOP, BOTTOM = 22, 26  # pixels above and below the circles, for words
_KINDS = {"o": "over", "u": "under", "n": "on", "i": "idle", "x": "unknown", "b": "before"}
_BESIDE = 8  # pixels between a circle and its words


def draw_fair(line: FairLine, links_of: Callable[[Member], MemberLinks], room: Room = WIDE) -> SafeString:
    """The state of now. Links are read as a list, furthest off target first."""
    _root_px, spots = spots_of(line, room)
    circles = [
        _circle(line, row, spot, links_of(line.convergence.members[row]), room, is_first=not at)
        for at, (row, spot) in enumerate(zip(line.rows, spots, strict=True))
    ]
    label = _("Entries by used ÷ target, furthest off target first")
    parts = [
        element("g", joined(_axis(line, room)), **{"class": "fair-axis"}, aria_hidden="true"),
        element("g", joined(circles), **{"class": "fair-groups"}, role="list", aria_label=label),
    ]
    return element("svg", joined(parts), **{"class": "fair"}, role="group", aria_label=_("Fair line"))


def _axis(line: FairLine, room: Room) -> Iterator[SafeString]:
    low, high = (part_of(place) for place in band_places(line))
    size, bottom = {"y": f"{TOP}", "height": f"{room.height:g}"}, TOP + room.height
    yield element("rect", "", **{"class": "fair-band"}, x=_percent(low), width=_percent(high - low), **size)
    for place, text in tick_places():
        x, css = _percent(part_of(place)), {"class": "fair-rule"} if place == 0.5 else {"class": "fair-tick"}
        yield element("line", "", **css, x1=x, x2=x, y1=f"{TOP}", y2=f"{bottom:g}")
        yield element("text", text, **css, x=x, y=f"{bottom + 17:g}", text_anchor="middle")
    ends = (
        (0, "start", {"wide": _("← used less than its share"), "narrow": _("← used less")}),
        (1, "end", {"wide": _("used more than its share →"), "narrow": _("used more →")}),
    )
    for place, anchor, texts in ends:
        for window, words in texts.items():
            yield element("text", words, **{"class": window}, x=_percent(part_of(place)), y="13", text_anchor=anchor)


def _circle(line: FairLine, row: int, spot: Spot, links: MemberLinks, room: Room, *, is_first: bool) -> SafeString:
    """A link with its words. data-*: as a tile has them, for the same keys and menu."""
    member, now = line.convergence.members[row], line.now
    actual, target = float(line.actual[row, now]), float(line.target[row, now])
    place = line.places[row, : line.n_past]
    place = place[~(place != place)]  # without NaN
    at = float(place[-1]) if len(place) else 0.5
    kind = _KINDS[line.letter(row, now)]
    name, shares = texts_beside(line, row, now, room) if spot.has_words else ("", "")
    dx = spot.radius + _BESIDE
    words = joined([element("tspan", name, **{"class": "nm"}), element("tspan", f" {shares}")]) if name else ""
    factor = factor_text(actual, target) if spot.has_factor and kind in ("over", "under") else ""
    spoken = f"{member.name}: {used_text(actual, target, str(line.states[row, now]), float(line.slack[row, now]))}"
    link = element(
        "a",
        joined([element("path", "", **{"class": "tail"}), element("circle", "", r=f"{spot.radius:g}")]),
        id=f"fair-{member.uid}",
        href=links.select,
        data_select="",
        aria_label=spoken,
        tabindex="0" if is_first else "-1",
    )
    side = {"x": f"{-dx if spot.is_left else dx:g}", "text_anchor": "end" if spot.is_left else "start"}
    parts = [
        link,
        element("text", factor, **{"class": "times"}, y="4", text_anchor="middle", aria_hidden="true"),
        element("text", words, **{"class": "words"}, **side, y="4", aria_hidden="true"),
    ]
    data = {"data_entry_url": links.entry, "data_shares_url": links.shares, "data_group_url": links.group}
    return element(
        "svg",
        joined(parts),
        **{"class": f"fair-group {kind}"},
        x=_percent(part_of(at)),
        y=f"{TOP + spot.y:g}",
        overflow="visible",
        role="listitem",
        data_panel="",
        data_uid=str(member.uid),
        data_name=member.name,
        **{name: url for name, url in data.items() if url},
    )


def _percent(part: float) -> str:
    return f"{part * 100:.2f}%"
