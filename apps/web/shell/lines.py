"""Entries of a tree as table rows: text, bar, balance and sparkline, siblings on one scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from apps.policies.settings import PolicySettings
from apps.priorities.selectors import EntryRow, MoreRow, PolicyView
from apps.priorities.sentences import numbers as number_texts
from apps.series.convergence.selectors import Trend, load_trends
from apps.web.shell import presentation
from apps.web.shell.presentation import Balance, KeyedText, StatusBadge
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, Tolerance
from apps.web.svg.sparkline import Sparkline, draw_sparkline
from apps.web.texts.algorithm_text import OwnNumber, own_number

MOST_SPARKLINES = 300  # sparklines on one page
_COLOURED = ("over", "under")
OF_PARENT = "parent"
OF_TOTAL = "total"
_NIL, _NAME = UUID(int=0), "name"


@dataclass(frozen=True, slots=True)
class ScopeBadge:
    """scope: `local` or `global`. short: text of the badge; words: its title and text alternative."""

    scope: str
    sources: Sequence[str]
    short: str
    words: str


def badge_of(entry: EntryRow) -> ScopeBadge | None:
    """None for an entry with its parent's scope, and for one without children, where a scope has no effect."""
    if not entry.scope or not (entry.n_children or entry.hidden_children):
        return None
    values = {"sources": ", ".join(entry.scope_sources)}
    if entry.scope == "global":
        words = _("Entries below are compared by global usage")
        if entry.scope_sources:
            words = _("Entries below are compared by global usage, only of %(sources)s") % values
    else:
        words = _("Entries below are compared by local usage")
        if entry.scope_sources:
            words = _("Entries below are compared by local usage, only of %(sources)s") % values
    return ScopeBadge(entry.scope, entry.scope_sources, _short(entry.scope, entry.scope_sources), words)


def phrase(scope: str, sources: Sequence[str]) -> str:
    """A scope as a value: global; local, only of cluster."""
    if sources:
        text = _("global, only of %(sources)s") if scope == "global" else _("local, only of %(sources)s")
        return text % {"sources": ", ".join(sources)}
    return pgettext("a scope", "global") if scope == "global" else pgettext("a scope", "local")


def _short(scope: str, sources: Sequence[str]) -> str:
    if sources:
        return _("only %(sources)s") % {"sources": ", ".join(sources)}
    return _("Global") if scope == "global" else _("Local")


@dataclass(frozen=True, slots=True)
class DrawnTrend:
    """A sparkline and its text alternative."""

    figure: Sparkline
    words: str


def draw_trends(view: PolicyView, rows: Sequence[EntryRow], *, of: str) -> dict[UUID, DrawnTrend]:
    """Sparklines by entry, loaded in one query. Entries without known days are left out."""
    wanted = [row for row in rows if row.parent_uid is not None and row.target is not None][:MOST_SPARKLINES]
    trends = load_trends(view, [row.uid for row in wanted], of=of)
    drawn = {}
    for row in wanted:
        trend = trends.get(row.uid)
        state = row.state if row.state in _COLOURED else "on"
        line = draw_sparkline(trend.actual, trend.target, state=state) if trend is not None else None
        if trend is not None and line is not None:
            drawn[row.uid] = DrawnTrend(line, _words(trend))
    return drawn


def _words(trend: Trend) -> str:
    known = [value for value in trend.actual if isfinite(value)]
    shares = number_texts.change_shares(known[0], known[-1])
    return _("%(before)s to %(after)s in %(n)s days") % {
        "before": shares.before,
        "after": shares.after,
        "n": len(trend.actual),
    }


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mounted entry's document comes from, such as vo-a.example, version 41, 3 min old.

    standing: set if the document isn't fresh. url: of the mount, empty for users who may not open it. at: path of the
    mounted entry. version: 0 before the first document and for past revisions, where age_s is None.
    """

    words: str
    short: str
    at: str
    url: str
    standing: StatusBadge | None
    meanwhile: KeyedText
    version: int = 0
    age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One entry as a table row."""

    entry: EntryRow
    url: str
    index: int
    target: str
    actual: str
    balance: Balance | None
    bar: Bullet | None
    numbers: tuple[float | None, float | None]  # actual and target of the bar
    tolerance: Tolerance
    decimals: int = 1  # of its shares
    own: OwnNumber | None = None
    trend: DrawnTrend | None = None
    origin: Origin | None = None  # only of mounted entries
    scope: ScopeBadge | None = None  # whose usage its children are compared by
    more: None = None

    @property
    def label(self) -> str:
        """Text alternative of the bar without numbers beside it."""
        if self.entry.suppressed:
            return presentation.why_not_shown()
        return bar_label(*self.numbers, self.tolerance, decimals=self.decimals)

    @property
    def exact_actual(self) -> str:
        """Actual share with four decimals, for the tooltip."""
        return number_texts.percent(self.numbers[0], decimals=4)

    @property
    def exact_target(self) -> str:
        """Target with four decimals, for the tooltip."""
        return number_texts.percent(self.numbers[1], decimals=4)

    @property
    def why_not(self) -> str:
        """Why the numbers are hidden."""
        return presentation.why_not_shown() if self.entry.suppressed else ""

    @property
    def guides(self) -> int:
        return self.entry.level - 1

    @property
    def is_parent(self) -> bool:
        return self.entry.n_children > 0


@dataclass(frozen=True, slots=True)
class MoreLine:
    """Row for the children of a large group that are not on the page yet."""

    more: MoreRow
    url: str

    @property
    def guides(self) -> int:
        return self.more.level - 1


def entry_url(policy_slug: str, uid: UUID, name: str, moment: str = "") -> str:
    """URL of an entry's page; the route is reversed once per policy, because a tree page has hundreds of them.

    moment: query string on pages of past revisions.
    """
    before, after = _around_uid(policy_slug)
    return f"{before}{uid}{after.replace(_NAME, name_slug(name))}{moment}"


@lru_cache(maxsize=256)
def _around_uid(policy_slug: str) -> tuple[str, str]:
    route = reverse("pages:entry", kwargs={"policy": policy_slug, "uid": _NIL, "name": _NAME})
    before, _, after = route.rpartition(str(_NIL))
    return before, after


def show_tabs_of(request: HttpRequest, uid: UUID, name: str) -> None:
    """Let the frame show the tabs of an entry. To be called once the reader is known to see it."""
    request.shown_entry = {"uid": uid, "name": name_slug(name), "title": name}  # type: ignore[attr-defined]


def name_slug(name: str) -> str:
    """Readable last part of an entry's URL; the entry is found by its uid."""
    return slugify(name) or "entry"


def tolerance_of(settings: PolicySettings) -> Tolerance:
    stated = settings.tolerance
    leaves = stated.get("leaves")
    own = Tolerance(float(leaves["relative"]), float(leaves["points"]) / 100) if leaves else None
    return Tolerance(float(stated["relative"]), float(stated["points"]) / 100, own)


def tolerance_for(entry: EntryRow, tolerance: Tolerance) -> Tolerance:
    return tolerance.at(not entry.n_children and not entry.hidden_children)


def values(entry: EntryRow, of: str) -> tuple[float | None, float | None]:
    """(actual, target) among siblings or of the whole; actual is None if the usage is unknown."""
    if of == OF_TOTAL:
        return (None if entry.state == "unknown" else entry.actual_global), entry.target_global
    return (None if entry.state == "unknown" else entry.actual), entry.target


@dataclass(frozen=True, kw_only=True)
class LineContext:
    """What rows of one list have in common.

    of: OF_PARENT or OF_TOTAL. against_target: each bar has its own scale, so that all targets are at the same x.
    own_column: number specific to the algorithm to show. scales: by parent, if not all siblings are in the list.
    """

    policy_slug: str
    tolerance: Tolerance
    of: str = OF_PARENT
    width: int = bars.TREE_WIDTH
    against_target: bool = False
    own_column: str = ""
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    moment: str = ""
    trends: Mapping[UUID, DrawnTrend] = field(default_factory=dict)
    origins: Mapping[UUID, Origin] = field(default_factory=dict)
    scales: Mapping[UUID | None, float] | None = None


def draw_lines(entries: Sequence[EntryRow], context: LineContext) -> list[Line]:
    """Entries as table rows; siblings have a common scale unless `against_target`. Their shares have equal decimals."""
    of, tolerance, scales = context.of, context.tolerance, context.scales
    if scales is None:
        scales = {} if context.against_target else sibling_scales(entries, of=of, tolerance=tolerance)
    decimals = _decimals_of(entries, of, tolerance)
    lines = []
    for index, entry in enumerate(entries, start=2):
        actual, target = values(entry, of)
        band, is_root = tolerance_for(entry, tolerance), entry.parent_uid is None
        shown = None if is_root or target is None else _balance(entry, actual, target, of, band, decimals)
        shares = number_texts.compare_shares(actual, target, decimals=decimals)
        maximum = bars.against_target(target or 0) if context.against_target else scales.get(entry.parent_uid, 1.0)
        bar = None
        if shown is not None:
            bar = bars.draw(
                actual=actual, target=target, maximum=maximum, state=shown.state, width=context.width, tolerance=band
            )
        lines.append(
            Line(
                entry=entry,
                url=entry_url(context.policy_slug, entry.uid, entry.name, context.moment),
                index=index,
                target=shares.target,
                actual=shares.actual,
                balance=shown,
                bar=bar,
                numbers=(actual, target),
                tolerance=band,
                decimals=decimals,
                trend=context.trends.get(entry.uid),
                origin=context.origins.get(entry.uid),
                scope=badge_of(entry),
                own=own_number(entry.columns, context.own_column, context.algorithm, entry.state),
            )
        )
    return lines


def with_more(
    lines: Sequence[Line], more: Iterable[MoreRow], *, policy_slug: str, moment: str = ""
) -> Iterator[Line | MoreLine]:
    """Insert "load more" rows after the last shown descendant of each large group."""
    waiting = {row.parent_uid: row for row in more}
    open_groups: list[tuple[int, MoreRow]] = []
    names = {line.entry.uid: line.entry.name for line in lines}

    def stand_in(row: MoreRow) -> MoreLine:
        url = entry_url(policy_slug, row.parent_uid, names.get(row.parent_uid, ""), moment)
        return MoreLine(row, f"{url}{'&' if moment else '?'}cursor={row.cursor}#children")

    for line in lines:
        while open_groups and line.entry.level <= open_groups[-1][0]:
            yield stand_in(open_groups.pop()[1])
        yield line
        group = waiting.pop(line.entry.uid, None)
        if group is not None:
            open_groups.append((line.entry.level, group))
    while open_groups:
        yield stand_in(open_groups.pop()[1])
    for row in waiting.values():
        yield stand_in(row)


def whole_of(entries: Iterable[EntryRow]) -> str:
    """Sum of the shares of a group, also if only some of its members are in the list."""
    group = list(entries)
    known = next((row for row in group if row.shares and row.target), None)
    if known is not None and known.shares and known.target:
        return presentation.shares(round(known.shares / known.target, 6))
    return presentation.shares(sum(row.shares or 0.0 for row in group))


def sibling_scales(entries: Iterable[EntryRow], *, of: str, tolerance: Tolerance) -> dict[UUID | None, float]:
    groups: dict[UUID | None, list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        actual, target = values(entry, of)
        groups[entry.parent_uid].append((actual or 0.0, target or 0.0))
    return {parent: bars.share_scale(pairs, tolerance) for parent, pairs in groups.items()}


def bar_label(actual: float | None, target: float | None, tolerance: Tolerance, *, decimals: int | None = None) -> str:
    """Text alternative of a bar. decimals: of the shares beside it; by default what its two shares need."""
    if target is None:
        return ""
    if actual is None:
        return _("No usage known, target %(target)s") % {"target": number_texts.percent(target, decimals or 1)}
    slack, shares = tolerance.around(target), number_texts.compare_shares(actual, target, decimals=decimals)
    return _("Actual %(actual)s, target %(target)s, tolerance %(low)s to %(high)s") % {
        "actual": shares.actual,
        "target": shares.target,
        "low": number_texts.percent(max(target - slack, 0.0), shares.decimals),
        "high": number_texts.percent(target + slack, shares.decimals),
    }


def _decimals_of(entries: Iterable[EntryRow], of: str, tolerance: Tolerance) -> int:
    """Decimals of the shares of all these rows."""
    off_target = []
    for entry in entries:
        actual, target = values(entry, of)
        if entry.parent_uid is None or actual is None or target is None:
            continue
        if _balance(entry, actual, target, of, tolerance_for(entry, tolerance)).is_off_target:
            off_target.append((actual, target))
    return number_texts.decimals_of_column(off_target)


def _balance(
    entry: EntryRow, actual: float | None, target: float, of: str, tolerance: Tolerance, decimals: int | None = None
) -> Balance:
    if entry.suppressed:
        return presentation.not_shown()
    if of == OF_TOTAL:
        has_usage = entry.state != "idle"
        return presentation.balance(actual, target, has_usage=has_usage, tolerance=tolerance, decimals=decimals)
    return presentation.balance_of(entry.state, actual, target, tolerance=tolerance, decimals=decimals)
