"""The figure of a group: the shares of its members over time in one variant, beside targets and printed numbers."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.records import Curve, EntryNumbers, VariantReport
from apps.contrib.lab.pages.distances import group_numbers, worst_first
from apps.contrib.lab.pages.figures import LONGEST_PLOT_LABEL, ExperimentFigures, TimeAxis, without_data
from apps.contrib.lab.pages.numbers import exact_points_text
from apps.contrib.lab.pages.printed import printed_of
from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.priorities.sentences.numbers import UNKNOWN, percent
from apps.web.figures import axes, traces
from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Swatch, Table, Trace, with_changes
from apps.web.texts.shortened import shortened

MOST_DRAWN_MEMBERS = 8  # members in the picture; the table has all
MOST_GROUP_BUTTONS = 8  # groups in a row of buttons
MOST_NAMED_MEMBERS = 3  # members in the sentence


def group_shares(page: ExperimentFigures) -> Figure:
    """The share of each member of a group. `?group=`: by default the one farthest from fair use; `?variant=`."""
    group, report = _chosen_group(page), _chosen_report(page)
    curves = [] if group is None or report is None else _members(report, group)
    known = [value for curve in curves for value in curve.share if value is not None]
    if group is None or report is None or not known:
        return without_data(page, "group", _("Shares of a group"))
    axis = TimeAxis(page.detail, report.at_h)
    drawn, labels = [], []
    largest = sorted(curves, key=lambda curve: -max((value or 0.0 for value in curve.share), default=0.0))[
        :MOST_DRAWN_MEMBERS
    ]
    shown = [curve for curve in curves if curve in largest]
    targets = list(dict.fromkeys(curve.target for curve in shown if curve.target is not None))
    for target in targets:
        drawn.append(traces.target([axis.x[0], axis.x[-1]], [100 * target, 100 * target]))
    for number, curve in enumerate(shown):
        values = axes.rounded([None if value is None else 100 * value for value in curve.share], 2)
        color = traces.series_color(number)
        texts = [UNKNOWN if value is None else percent(value) for value in curve.share]
        drawn.append(traces.line(axis.x, values, name=curve.name, color=color, words=texts))
        if (last := _last(curve)) is not None:
            labels.append(EndLabel(100 * last, shortened(curve.name, LONGEST_PLOT_LABEL), color))
    printed = printed_of(page.detail, report).get(group.path)
    published = {} if printed is None else {path: share for path, share in printed.published.items()}
    dots = [(axis.x[-1], share) for path, share in published.items() if any(curve.path == path for curve in shown)]
    if dots:
        drawn.append(_printed_dots(dots))
    legend = [Swatch("$ink", _("target: dashed"))]
    if dots and printed is not None:
        legend.append(Swatch("$ink", _("printed in figure %(n)s") % {"n": printed.number}, is_dot=True))
    return Figure(
        name="group",
        title=_("Shares in %(group)s over time") % {"group": _label(group)},
        note=_("% of the group’s usage as priorities see it"),
        sentence=_sentence(group, report, curves),
        traces=drawn,
        layout={
            "margin": axes.margin(44, 120, 8, 24),
            "xaxis": axis.layout(shown),
            "yaxis": axes.share_axis(
                [*(100 * value for value in known), *(100 * each for each in targets), *published.values()]
            ),
        },
        table=_table(axis, curves, published),
        size="m",
        labels=labels,
        legend=legend,
        controls=[*_group_controls(page, group), *_variant_controls(page, report)],
        file=f"{page.file}_group",
        caption=page.caption,
    )


def _chosen_report(page: ExperimentFigures) -> VariantReport | None:
    """As the page chooses it."""
    return chosen_report(page.reports, page.query.get("variant", ""))


def chosen_report(reports: Sequence[VariantReport], text: str) -> VariantReport | None:
    """The variant that a query names, the first one, or the last that is done; None without any."""
    wanted, by_index = read_whole(text, 5), {report.index: report for report in reports}
    chosen = by_index.get(-1 if wanted is None else wanted) or by_index.get(1)
    return chosen or (reports[-1] if reports else None)


def _chosen_group(page: ExperimentFigures) -> EntryNumbers | None:
    """Raises Invalid for an unknown one."""
    rows = group_numbers(page.reports)
    text = page.query.get("group", "")
    if not text:
        return next((numbers for numbers, _of_variants in worst_first(rows)), None)
    named = next((numbers for numbers, _of_variants in rows if str(numbers.entry) == text), None)
    if named is None:
        message = _("This experiment doesn’t list the group %(group)s.") % {"group": text[:40]}
        raise Invalid(message, fields=[FieldProblem("group", message)])
    return named


def _members(report: VariantReport, group: EntryNumbers) -> list[Curve]:
    """Those that compete in it, in the order of the tree."""
    above = group.path.rstrip("/")
    return [
        curve
        for curve in report.curves
        if curve.path != "/" and curve.path.rpartition("/")[0] == above and curve.target is not None
    ]


def _label(group: EntryNumbers) -> str:
    return _("the whole") if group.path == "/" else group.name


def _last(curve: Curve) -> float | None:
    return next((value for value in reversed(curve.share) if value is not None), None)


def _sentence(group: EntryNumbers, report: VariantReport, curves: Sequence[Curve]) -> str:
    ends = [(curve, last) for curve in curves if (last := _last(curve)) is not None and curve.target is not None]
    ends = sorted(ends, key=lambda each: -abs(each[1] - (each[0].target or 0.0)))[:MOST_NAMED_MEMBERS]
    numbers = next((each for each in report.entries if each.entry == group.entry), group)
    texts = [
        _("%(name)s %(share)s (target %(target)s)")
        % {"name": curve.name, "share": percent(last), "target": percent(curve.target)}
        for curve, last in sorted(ends, key=lambda each: each[0].path)
    ]
    return _("“%(title)s” ends with %(members)s; over time %(points)s points from target.") % {
        "title": report.title,
        "members": ", ".join(texts),
        "points": exact_points_text(numbers.rms_points),
    }


def _printed_dots(dots: Sequence[tuple[object, float]]) -> Trace:
    pen = {"symbol": "circle-open", "size": 10, "color": "$ink", "line": {"color": "$ink", "width": 1.75}}
    return traces.hollow_dots(dots) | {"marker": pen, "cliponaxis": False}


def _table(axis: TimeAxis, curves: Sequence[Curve], published: dict[str, float]) -> Table:
    """Targets and printed shares first, then the shares from the first sample to the last."""
    n = min(len(axis.x), *(len(curve.share) for curve in curves))
    step = max(1, n // 24)
    rows = [[_("Target"), *(percent(curve.target) for curve in curves)]]
    if published:
        of_paper = [published.get(curve.path) for curve in curves]
        rows.append([_("Printed"), *(UNKNOWN if share is None else percent(share / 100) for share in of_paper)])
    rows += [[axis.text(at), *(percent(curve.share[at]) for curve in curves)] for at in range(step - 1, n, step)]
    raw = [
        [axis.at_h[at], *("" if curve.share[at] is None else curve.share[at] for curve in curves)] for at in range(n)
    ]
    columns = (Column(_("Time"), is_number=False), *(Column(curve.name) for curve in curves))
    return Table(columns, rows, raw, ("hours", *(curve.path for curve in curves)))


def _group_controls(page: ExperimentFigures, group: EntryNumbers) -> list[Control]:
    """The groups of the upper levels, in the order of the tree, and the chosen one."""
    groups = [numbers for numbers, _of_variants in group_numbers(page.reports)]
    offered = groups[:MOST_GROUP_BUTTONS]
    if group not in offered:
        offered = [*offered[: MOST_GROUP_BUTTONS - 1], group]
    choices = [
        Choice(
            f"group-{each.entry}",
            _("Whole") if each.path == "/" else each.name,
            with_changes(page.query, group=str(each.entry)),
            each == group,
        )
        for each in offered
    ]
    return [Control(_("Group"), choices)] if len(choices) > 1 else []


def _variant_controls(page: ExperimentFigures, report: VariantReport) -> list[Control]:
    choices = [
        Choice(
            f"variant-{each.index}",
            shortened(each.title, LONGEST_PLOT_LABEL),
            with_changes(page.query, variant=str(each.index)),
            each is report,
        )
        for each in page.reports
    ]
    return [Control(_("Variant"), choices)] if len(choices) > 1 else []
