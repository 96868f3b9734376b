"""What would be otherwise without a peer: a verdict, the largest differences drawn, and all of them as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.what_if.without_sources import Difference, Without
from apps.dashboard.figures import dumbbell
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.keyed import Keyed

_DRAWN = 20


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    one: Difference
    url: str
    above: str
    target: str
    before: str
    after: str
    change: str
    priority_before: str
    priority_after: str
    rank_before: str
    rank_after: str
    is_closer: bool  # to its target, without the peer


def shown(found: Without, site: str) -> dict[str, Any]:
    drawn = [row for row in found.rows if row.before.actual is not None and abs(row.change) >= 5e-4][:_DRAWN]
    pairs = [(_short(row), _change(row), row.before.actual, row.after.actual) for row in drawn]
    return {
        "headline": headline(found, site),
        "lines": [_line(found, row) for row in found.rows],
        "wide": dumbbell.draw(pairs, width=720) if pairs else None,
        "narrow": dumbbell.draw(pairs, width=340, narrow=True) if pairs else None,
        "moved": _moved(found),
    }


def headline(found: Without, site: str) -> Keyed:
    if not found.rows:
        return Keyed("nothing", _("Without %(site)s nothing visible to you would differ") % {"site": site})
    first = found.rows[0]
    if abs(first.change) < 5e-4:
        text = _("Without %(site)s shares would be the same, but some ranks would differ") % {"site": site}
        return Keyed("ranks", text)
    words = {
        "site": site,
        "name": first.name,
        "before": presentation.percent(first.before.actual),
        "after": presentation.percent(first.after.actual),
    }
    return Keyed("shares", _("Without %(site)s, %(name)s would have %(after)s instead of %(before)s") % words)


def _moved(found: Without) -> str:
    if not found.n_moved:
        return _("No visible entry would change rank.")
    text = ngettext("%(n)s entry would change rank.", "%(n)s entries would change rank.", found.n_moved)
    return text % {"n": presentation.count(found.n_moved)}


def _line(found: Without, row: Difference) -> DifferenceLine:
    target = row.target or 0.0
    off = abs((row.before.actual or 0.0) - target), abs((row.after.actual or 0.0) - target)
    return DifferenceLine(
        one=row,
        url=lines.entry_url(found.policy_slug, row.uid, row.name),
        above=row.path.rpartition("/")[0] or "/",
        target=presentation.percent(row.target),
        before=presentation.percent(row.before.actual),
        after=presentation.percent(row.after.actual),
        change=_change(row),
        priority_before=presentation.signed(row.before.priority),
        priority_after=presentation.signed(row.after.priority),
        rank_before=_rank(row.before.rank),
        rank_after=_rank(row.after.rank),
        is_closer=off[1] < off[0],
    )


def _change(row: Difference) -> str:
    return presentation.change(row.before.actual or 0.0, row.after.actual or 0.0)


def _rank(rank: int | None) -> str:
    return presentation.UNKNOWN if rank is None else presentation.count(rank)


def _short(row: Difference) -> str:
    return row.name if len(row.name) <= 26 else row.name[:25] + "…"
