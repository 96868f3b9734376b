"""The grid view as texts and rows: headline, warnings, entries with bars, and sites with age, capacity and version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.federation.grid.sites import SiteColumn, SiteState, Unsubscribed
from apps.federation.grid.totals import Grid, GridRow
from apps.priorities.sentences import numbers as number_texts
from apps.web.shell import lines, presentation
from apps.web.shell.lines import Line
from apps.web.shell.presentation import KeyedText, StatusBadge
from apps.web.texts.conditions import STANDINGS

METER = 74.0
_NOT_SUBSCRIBED: dict[Unsubscribed, StatusBadge] = {
    Unsubscribed.HERE: StatusBadge("", "server-2", gettext_lazy("this site"), Unsubscribed.HERE),
    Unsubscribed.UNTOLD: StatusBadge(
        "", "arrows-exchange", gettext_lazy("its records arrive separately"), Unsubscribed.UNTOLD
    ),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Usage that one site delivered to one entry, and its fraction of all usage of the entry."""

    site: str
    amount: str
    part: str


@dataclass(frozen=True, slots=True)
class GridLine:
    """One entry of the grid. ran_elsewhere: idle by the usage that counts, while other sites delivered to it."""

    line: Line
    depth: int
    url: str
    total: str
    cells: tuple[Cell, ...]
    why_not: str
    ran_elsewhere: bool


@dataclass(frozen=True, slots=True)
class SiteLine:
    site: SiteColumn
    name: str
    standing: StatusBadge
    is_old: bool
    delivered: str
    part: str
    capacity: str
    capacity_note: str
    meter: str
    is_full: bool
    used: str
    age: str
    age_note: str
    version: str
    version_note: str
    held: str
    url: str


def standing_of(state: SiteState) -> StatusBadge:
    """Badge of a site's state: as in the table of peers, or that of a site without a subscription."""
    return _NOT_SUBSCRIBED[state] if isinstance(state, Unsubscribed) else STANDINGS[state]


def headline(grid: Grid) -> str:
    """Headline on the entry's deviation from its share; only its name for the root and unknown deviations."""
    n = len(grid.sites)
    over = ngettext("%(n)s site", "%(n)s sites", n) % {"n": number_texts.count(n)}
    row, words = grid.own.entry, {"name": grid.name, "sites": over}
    words["points"] = number_texts.compare_shares(row.actual, row.target).points_phrase
    if row.state == "over" and row.deviation_points is not None:
        return _("%(name)s has used %(points)s more than its share") % words
    if row.state == "under" and row.deviation_points is not None:
        return _("%(name)s has used %(points)s less than its share") % words
    if row.state == "on" and grid.own.entry.parent_uid is not None:
        return _("%(name)s has used its share") % words
    return _("%(name)s over %(sites)s") % words


def sentences(grid: Grid) -> list[KeyedText]:
    """At most five sentences: largest deviations, the site with most usage, held hours, and outdated versions."""
    texts = [*_largest_deviations(grid), *_largest_site(grid)]
    texts += [_held_text(site) for site in grid.sites if site.held_hours][:1]
    texts += [_behind_text(site, grid.at) for site in grid.sites if site.is_behind][:2]
    return texts[:5]


def warnings(grid: Grid) -> list[tuple[KeyedText, KeyedText]]:
    """Warnings, each as a bold beginning and the rest of the sentence."""
    pairs = []
    alone = _("Compared by local usage only.")
    if grid.fallback_since is not None:
        at = presentation.clock_time(grid.fallback_since, grid.at)
        rest = _("Other sites have been unreachable too long; their usage since %(at)s doesn’t count.") % {"at": at}
        pairs.append((KeyedText("fallback", alone), KeyedText("since", rest)))
    elif grid.scope == "local" and len(grid.sites) > 1:
        rest = _("This entry’s scope is local: usage of other sites is listed, but doesn’t count.")
        pairs.append((KeyedText("local_scope", alone), KeyedText("listed_only", rest)))
    old = [site.name for site in grid.sites if site.is_old(grid.at)]
    if old:
        key = "old_counts" if grid.fallback_since is None else "old"
        rest = _("The last usage from %(sites)s is older than allowed.")
        pairs.append(
            (KeyedText("unheard", _("Some sites are unreachable.")), KeyedText(key, rest % {"sites": ", ".join(old)}))
        )
    return pairs


def grid_lines(grid: Grid) -> list[GridLine]:
    drawn = lines.draw_lines(
        [row.entry for row in grid.rows],
        lines.LineContext(policy_slug=grid.policy_slug, tolerance=lines.tolerance_of(grid.settings)),
    )
    return [_line(grid, row, line) for row, line in zip(grid.rows, drawn, strict=True)]


def site_lines(grid: Grid, *, may_open: frozenset[int]) -> list[SiteLine]:
    """Rows of sites. may_open: ids of the subscriptions whose pages the actor may see."""
    total = sum(site.core_s or 0.0 for site in grid.sites)
    return [_site_line(site, grid.at, total, may_open) for site in grid.sites]


def grid_url(policy: str, path: str, levels: int = 1) -> str:
    query = {"policy": policy, "entry": path, **({"levels": str(levels)} if levels != 1 else {})}
    return f"{reverse('pages:federation-grid')}?{urlencode(query)}"


def csv_header(grid: Grid) -> list[str]:
    own = ["path", "kind", "depth", "target", "actual", "deviation_points", "state", "delivered_core_h"]
    return [*own, *(f"core_h {site.origin or 'this site'}" for site in grid.sites)]


def csv_rows(grid: Grid) -> Iterator[Sequence[Any]]:
    """Rows of fractions and core-hours at full precision; empty cells for hidden and missing values."""
    for row in grid.rows:
        entry, total = row.entry, row.total_core_s
        amounts: list[Any] = [""] * len(grid.sites) if row.core_s is None else [value / 3600 for value in row.core_s]
        numbers = [entry.target, entry.actual, entry.deviation_points]
        yield [
            entry.path,
            entry.kind,
            row.depth,
            *("" if value is None else value for value in numbers),
            entry.state,
            "" if total is None else total / 3600,
            *amounts,
        ]


def _largest_deviations(grid: Grid) -> Iterator[KeyedText]:
    off = [row.entry for row in grid.children if row.entry.state in ("over", "under")]
    known = [row for row in off if row.deviation_points is not None]
    if not known:
        if grid.children and all(row.entry.state == "on" for row in grid.children):
            yield KeyedText("all_on_target", _("All entries below are on target."))
        return
    words = _("%(name)s: actual %(actual)s, target %(target)s")
    for state in ("over", "under"):
        rows = [row for row in known if row.state == state]
        if rows:
            worst = max(rows, key=lambda row: abs(row.deviation_points or 0.0))
            shares = number_texts.compare_shares(worst.actual, worst.target)
            text = words % {"name": worst.name, "actual": shares.actual, "target": shares.target}
            yield KeyedText(f"furthest_{state}", f"{text}.")


def _largest_site(grid: Grid) -> Iterator[KeyedText]:
    total = sum(site.core_s or 0.0 for site in grid.sites)
    delivering = [site for site in grid.sites if site.core_s]
    if len(delivering) > 1 and total:
        most = max(delivering, key=lambda site: site.core_s or 0.0)
        words = {"site": _site_name(most), "part": number_texts.percent((most.core_s or 0.0) / total)}
        yield KeyedText("delivered_most", _("%(site)s delivered %(part)s of it.") % words)


def _held_text(site: SiteColumn) -> KeyedText:
    text = ngettext(
        "%(n)s hour reported by %(site)s doesn’t count: it exceeds the capacity.",
        "%(n)s hours reported by %(site)s don’t count: they exceed the capacity.",
        site.held_hours,
    )
    return KeyedText("held_hours", text % {"n": number_texts.count(site.held_hours), "site": site.name})


def _behind_text(site: SiteColumn, at: datetime) -> KeyedText:
    newest = str(site.published)
    if site.published_at is not None:
        newest += f" ({presentation.age(presentation.seconds_between(site.published_at, at))})"
    words = {"site": site.name, "n": site.enforced, "newest": newest}
    return KeyedText("behind", _("%(site)s applies version %(n)s; the newest is %(newest)s.") % words)


def _site_name(site: SiteColumn) -> str:
    return _("This site") if site.is_here and not site.name else site.name


def _line(grid: Grid, row: GridRow, line: Line) -> GridLine:
    url = grid_url(grid.policy_slug, row.entry.path) if row.depth and row.entry.n_children else ""
    why_not = "" if row.core_s is not None or grid.as_of is None else presentation.why_not_shown()
    has_parts = len(grid.sites) > 1  # with one site all fractions would be 100 %
    cells = tuple(
        Cell(
            _site_name(site),
            presentation.hours(None if row.core_s is None else row.core_s[n]),
            number_texts.percent(part) if has_parts and (part := row.part_of(n)) else "",
        )
        for n, site in enumerate(grid.sites)
    )
    ran_elsewhere = row.entry.state == "idle" and bool(row.total_core_s)
    total = presentation.hours(row.total_core_s)
    return GridLine(line, row.depth, url, total, cells, why_not, ran_elsewhere)


def _site_line(site: SiteColumn, at: datetime, total: float, may_open: frozenset[int]) -> SiteLine:
    used = site.part_of_capacity
    part = number_texts.percent(site.core_s / total) if site.core_s is not None and total else ""
    capacity, capacity_note = _capacity(site)
    age, age_note = _age(site, at)
    version, version_note = _version(site, at)
    opens = site.subscription_id is not None and site.subscription_id in may_open
    url = reverse("pages:federation-subscription", args=[site.subscription_id]) if opens else ""
    return SiteLine(
        site=site,
        name=_site_name(site),
        standing=standing_of(site.state),
        is_old=site.is_old(at),
        delivered=presentation.hours(site.core_s),
        part=part,
        capacity=capacity,
        capacity_note=capacity_note,
        meter="" if used is None else f"{min(max(used * METER, 1.5), METER):.1f}",
        is_full=used is not None and used > 1,
        used="" if used is None else number_texts.percent(used),
        age=age,
        age_note=age_note,
        version=version,
        version_note=version_note,
        held=_held(site),
        url=url,
    )


def _capacity(site: SiteColumn) -> tuple[str, str]:
    if site.capacity_cores is None:
        return number_texts.UNKNOWN, _("not reported")
    cores = presentation.cores_text(site.capacity_cores)
    if site.reported_capacity_cores is None:
        return cores, ""
    return cores, _("declares %(n)s now") % {"n": number_texts.count(round(site.reported_capacity_cores))}


def _age(site: SiteColumn, at: datetime) -> tuple[str, str]:
    if site.last_contact_at is None:
        return number_texts.UNKNOWN, ""
    age = presentation.age(presentation.seconds_between(site.last_contact_at, at))
    note = "" if site.max_age_s is None else _("of %(allowed)s") % {"allowed": presentation.duration(site.max_age_s)}
    return age, note


def _version(site: SiteColumn, at: datetime) -> tuple[str, str]:
    if site.enforced is None:
        return number_texts.UNKNOWN, "" if site.is_here or site.state is Unsubscribed.UNTOLD else _("not reported")
    version = _("Version %(n)s") % {"n": site.enforced}
    if site.published is None:
        return version, ""
    if not site.is_behind:
        return version, _("Newest")
    if site.published_at is None:
        return version, _("Newest: %(n)s") % {"n": site.published}
    age = presentation.age(presentation.seconds_between(site.published_at, at))
    return version, _("Newest: %(n)s, published %(age)s ago") % {"n": site.published, "age": age}


def _held(site: SiteColumn) -> str:
    if not site.held_hours:
        return _("Running jobs") if site.running_held else ""
    return ngettext("%(n)s hour", "%(n)s hours", site.held_hours) % {"n": number_texts.count(site.held_hours)}
