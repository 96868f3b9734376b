"""Figures of an experiment: the share of an entry over time beside its target, and waits of groups, by variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.records import Curve, EntryNumbers, ExperimentDetail, VariantReport
from apps.contrib.lab.experiments.scenario_titles import title_of_scenario
from apps.core.errors import FieldProblem, Invalid
from apps.priorities.sentences.numbers import UNKNOWN, percent
from apps.priorities.sentences.wait_text import wait_text
from apps.web.figures import axes, traces
from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Swatch, Table, with_changes
from apps.web.texts.shortened import shortened

MOST_ENTRY_BUTTONS = 8  # of entries in a row of buttons
MOST_WAIT_GROUPS = 12  # in the picture of waits; the table has all
LONGEST_PLOT_LABEL = 24  # characters of a name in a drawing
_FEW_HOURS = 96
_BASE_COLOR = "$ink-3"


@dataclass(frozen=True)
class ExperimentFigures:
    """Reports of the variants that are done, by index, and the query of the page."""

    detail: ExperimentDetail
    reports: Sequence[VariantReport]
    query: QueryDict

    @cached_property
    def numbers(self) -> list[EntryNumbers]:
        """The entries that all pictures may show: those of the first report."""
        return [each for each in self.reports[0].entries if each.depth > 0] if self.reports else []

    @cached_property
    def entry(self) -> EntryNumbers | None:
        """The entry that the query names; by default the largest group. Raises Invalid for an unknown one."""
        text = self.query.get("entry", "")
        if not text:
            tops = [each for each in self.numbers if each.depth == 1]
            return max(tops, key=lambda each: each.core_h, default=None)
        named = next((each for each in self.numbers if str(each.entry) == text), None)
        if named is None:
            message = _("This experiment doesn’t list %(entry)s.") % {"entry": text[:40]}
            raise Invalid(message, fields=[FieldProblem("entry", message)])
        return named

    def color(self, index: int) -> str:
        return _BASE_COLOR if index == 0 else traces.series_color(index - 1)

    @property
    def file(self) -> str:
        return f"fairshare_{self.detail.row.policy}_experiment_{self.detail.row.id}"

    @property
    def caption(self) -> str:
        row = self.detail.row
        if scenario := self.detail.spec.get("scenario"):
            values = {"name": row.name, "title": title_of_scenario(scenario)}
            return _("LAB: %(name)s, shipped scenario “%(title)s”") % values
        return _("LAB: %(name)s, revision %(n)s of %(policy)s") % {
            "name": row.name,
            "n": row.revision,
            "policy": row.policy,
        }


def shares(page: ExperimentFigures) -> Figure:
    """The share of one entry among its siblings over time, in each variant, and its targets."""
    entry = page.entry
    rows = [] if entry is None else [(each, _curve(each, entry.entry)) for each in page.reports]
    curves = [(report, curve) for report, curve in rows if curve is not None]
    known = [value for _report, curve in curves for value in curve.share if value is not None]
    if entry is None or not known:
        return without_data(page, "share", _("Share over time"))
    drawn, labels = [], []
    axis = TimeAxis(page.detail, curves[0][0].at_h)
    targets = dict.fromkeys(curve.target for _report, curve in curves if curve.target is not None)
    for target in targets:
        drawn.append(traces.target([axis.x[0], axis.x[-1]], [100 * target, 100 * target]))
    for report, curve in curves:
        values = axes.rounded([None if value is None else 100 * value for value in curve.share], 2)
        texts = [UNKNOWN if value is None else percent(value) for value in curve.share]
        drawn.append(
            traces.line(
                TimeAxis(page.detail, report.at_h).x,
                values,
                name=report.title,
                color=page.color(report.index),
                words=texts,
                width=3.0 if report.index == 0 else 1.75,  # seen below a variant with the same share
            )
        )
        last = next((value for value in reversed(values) if value is not None), None)
        if last is not None:
            labels.append(EndLabel(last, shortened(report.title, LONGEST_PLOT_LABEL), page.color(report.index)))
    labels.extend(EndLabel(100 * target, _("target"), "$ink") for target in targets)
    return Figure(
        name="share",
        title=_("Share of %(name)s over time") % {"name": entry.name},
        note=_("% of its siblings’ usage as priorities see it"),
        sentence=_share_sentence(entry, curves),
        traces=drawn,
        layout={
            "margin": axes.margin(44, 168, 8, 24),
            "xaxis": axis.layout([curve for _report, curve in curves]),
            "yaxis": axes.share_axis([*(100 * value for value in known), *(100 * target for target in targets)]),
        },
        table=_share_table(axis, curves),
        size="m",
        labels=labels,
        controls=_entry_controls(page, entry),
        file=f"{page.file}_share",
        caption=page.caption,
    )


def _curve(report: VariantReport, entry: UUID) -> Curve | None:
    return next((curve for curve in report.curves if curve.entry == entry), None)


def _share_sentence(entry: EntryNumbers, curves: Sequence[tuple[VariantReport, Curve]]) -> str:
    ends = []
    for report, curve in curves[:2]:
        last = next((value for value in reversed(curve.share) if value is not None), None)
        if last is not None:
            ends.append((report.title, percent(last)))
    if len(ends) < 2:
        return _("%(name)s ends at %(share)s.") % {"name": entry.name, "share": ends[0][1]} if ends else ""
    return _("%(name)s ends at %(share_was)s in the base and at %(share)s with “%(title)s”.") % {
        "name": entry.name,
        "share_was": ends[0][1],
        "share": ends[1][1],
        "title": ends[1][0],
    }


def _share_table(axis: TimeAxis, curves: Sequence[tuple[VariantReport, Curve]]) -> Table:
    titles = [report.title for report, _curve_of in curves]
    n = min(len(axis.x), *(len(curve.share) for _report, curve in curves))
    step = max(1, n // 30)
    rows = [
        [axis.text(at), *(percent(curve.share[at]) for _report, curve in curves)] for at in range(step - 1, n, step)
    ]
    raw = [
        [axis.at_h[at], *("" if curve.share[at] is None else curve.share[at] for _report, curve in curves)]
        for at in range(n)
    ]
    names = ("hours", *(f"share_{report.index}" for report, _curve_of in curves))
    return Table((Column(_("Time"), is_number=False), *map(Column, titles)), rows, raw, names)


def _entry_controls(page: ExperimentFigures, entry: EntryNumbers) -> list[Control]:
    """Buttons of the largest top groups, and of the chosen entry."""
    tops = sorted((each for each in page.numbers if each.depth == 1), key=lambda each: -each.core_h)
    offered = tops[:MOST_ENTRY_BUTTONS]
    if entry not in offered:
        offered = [*offered[: MOST_ENTRY_BUTTONS - 1], entry]
    choices = [
        Choice(f"entry-{each.entry}", each.name, with_changes(page.query, entry=str(each.entry)), each == entry)
        for each in offered
    ]
    return [Control(_("Entry"), choices)] if len(choices) > 1 else []


@dataclass(frozen=True)
class TimeAxis:
    """Times of the curves: days of a replay, or hours or days from the start."""

    detail: ExperimentDetail
    at_h: Sequence[float]

    @cached_property
    def start(self) -> datetime | None:
        """Of a replay: midnight before its first day, in the zone of pages."""
        first = self.detail.first_day
        return None if first is None else timezone.make_aware(datetime.combine(first, time()))

    @property
    def unit_h(self) -> float:
        return 1.0 if not self.at_h or self.at_h[-1] <= _FEW_HOURS else 24.0

    @cached_property
    def x(self) -> list[Any]:
        if self.start is not None:
            return [axes.moment(self.start + timedelta(hours=hours)) for hours in self.at_h]
        return [round(hours / self.unit_h, 4) for hours in self.at_h]

    def text(self, at: int) -> str:
        if self.start is not None:
            return f"{timezone.localtime(self.start + timedelta(hours=self.at_h[at])):%Y-%m-%d %H:%M}"
        return wait_text(self.at_h[at] * 3600)

    def layout(self, curves: Sequence[Curve]) -> dict[str, Any]:
        """From the first sample that one of the curves has: before it the picture would be empty."""
        first = min((at for curve in curves for at, share in enumerate(curve.share) if share is not None), default=0)
        from_h = self.at_h[min(first, len(self.at_h) - 2)] if first > 0 and len(self.at_h) > 1 else 0.0
        if self.start is not None:
            return axes.day_axis(self.start + timedelta(hours=from_h), self.start + timedelta(hours=self.at_h[-1]))
        low, high = from_h / self.unit_h, self.at_h[-1] / self.unit_h
        unit = _("h") if self.unit_h == 1.0 else _("d")
        marks = axes.ticks(low, high, 6)
        texts = [f"{mark:g}" for mark in marks[:-1]] + [f"{marks[-1]:g}\u00a0{unit}"]
        title = {"text": _("after %%{x:.1f} %(unit)s") % {"unit": unit}}
        return {"range": [low, high], "tickvals": marks, "ticktext": texts, "unifiedhovertitle": title}


def waits(page: ExperimentFigures) -> Figure:
    """The median wait of each top group in each variant."""
    groups = sorted(
        (each for each in page.numbers if each.depth == 1 and each.n_jobs),
        key=lambda each: (-each.core_h, each.name),
    )
    if not groups:
        return without_data(page, "waits", _("Waits by group"))
    by_report = [(report, {each.entry: each for each in report.entries}) for report in page.reports]

    def wait_h(entries: dict[UUID, EntryNumbers], group: EntryNumbers) -> float | None:
        seconds = entries[group.entry].wait_median_s if group.entry in entries else None
        return None if seconds is None else seconds / 3600

    shown = groups[:MOST_WAIT_GROUPS]
    values = {report.index: [wait_h(entries, group) for group in groups] for report, entries in by_report}
    drawn = [
        traces.bars(
            [traces.plotly_text(shortened(group.name, LONGEST_PLOT_LABEL)) for group in shown],
            axes.rounded(values[report.index][: len(shown)], 4),
            name=report.title,
            color=page.color(report.index),
            words=[f"{report.title}: {_wait_h_text(value)}" for value in values[report.index][: len(shown)]],
        )
        for report, _entries in by_report
    ]
    table = Table(
        (Column(_("Group"), is_number=False), *(Column(report.title) for report, _entries in by_report)),
        [
            [group.path, *(_wait_h_text(values[report.index][at]) for report, _entries in by_report)]
            for at, group in enumerate(groups)
        ],
        [
            [group.path, *(_raw(values[report.index][at]) for report, _entries in by_report)]
            for at, group in enumerate(groups)
        ],
        ("path", *(f"wait_median_h_{report.index}" for report, _entries in by_report)),
    )
    known = [value for row in values.values() for value in row[: len(shown)] if value is not None]
    return Figure(
        name="waits",
        title=_("Waits by group"),
        note=_("median wait, hours"),
        sentence=_waits_sentence(shown, by_report),
        traces=drawn,
        layout={
            "margin": axes.margin(40, 12, 8, 40),
            "barmode": "group",
            "bargap": 0.25,
            "hovermode": "closest",
            "xaxis": {"type": "category", "range": [-0.5, len(shown) - 0.5], "showgrid": False},
            "yaxis": axes.amount_axis(known)
            if max(known, default=0.0) >= 1
            else axes.number_axis(0.0, max([0.1, *known]) * 1.06),
        },
        table=table,
        size="m",
        legend=[
            Swatch(page.color(report.index), shortened(report.title, LONGEST_PLOT_LABEL))
            for report, _entries in by_report
        ],
        file=f"{page.file}_waits",
        empty="" if any(known) else _("No group waits: half of its jobs or more start at once, in every variant."),
        caption=page.caption,
    )


def _waits_sentence(
    groups: Sequence[EntryNumbers], by_report: Sequence[tuple[VariantReport, dict[UUID, EntryNumbers]]]
) -> str:
    """The group whose median wait a variant changes most."""
    if len(by_report) < 2:
        longest = max(groups, key=lambda each: each.wait_median_s or 0.0)
        values = {"name": longest.name, "wait": wait_text(longest.wait_median_s)}
        return _("%(name)s waits longest: %(wait)s.") % values
    base = by_report[0][1]
    moved: tuple[float, VariantReport, EntryNumbers, EntryNumbers] | None = None
    for report, entries in by_report[1:]:
        for group in groups:
            now, was = entries.get(group.entry), base.get(group.entry)
            if now is None or was is None or now.wait_median_s is None or was.wait_median_s is None:
                continue
            size = abs(now.wait_median_s - was.wait_median_s)
            if moved is None or size > moved[0]:
                moved = (size, report, now, was)
    if moved is None or wait_text(moved[2].wait_median_s) == wait_text(moved[3].wait_median_s):
        return _("No group’s median wait changes.")
    _size, report, now, was = moved
    return _("%(name)s changes most: it waits %(wait)s instead of %(wait_was)s with “%(title)s”.") % {
        "name": now.name,
        "wait": wait_text(now.wait_median_s),
        "wait_was": wait_text(was.wait_median_s),
        "title": report.title,
    }


def _wait_h_text(value: float | None) -> str:
    return wait_text(None if value is None else value * 3600)


def _raw(value: float | None) -> float | str:
    return "" if value is None else value


def without_data(page: ExperimentFigures, name: str, title: str) -> Figure:
    nothing = _("No jobs, so nothing to draw.")
    return Figure(
        name=name,
        title=title,
        sentence=nothing,
        traces=[],
        layout=axes.empty_layout(),
        table=Table((), (), ()),
        empty=nothing,
        reads=False,
        caption=page.caption,
    )
