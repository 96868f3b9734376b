"""Stacked shares of a group's subgroups over time, with the borders between their targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.convergence.figures.labels import Links, caption, day_text, file_name, moment_url, revision_marks
from apps.priorities.sentences.numbers import compare_shares
from apps.series.convergence.records import Convergence
from apps.series.daily_series import F8
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, EndLabel, Figure, Table, Trace
from apps.web.figures.used_and_target import used_words_of

_MOST = 8  # series: the largest seven and the rest combined


def stack_figure(convergence: Convergence, links: Links) -> Figure:
    """Draw shares in percent of the parent or the total, the largest target lowest.

    A subgroup with a hidden day is left out, and so is a sum that would reveal it.
    """
    title = _("Subgroups and their targets")
    layers = _layers(convergence) if convergence.on else []
    if not convergence.on or not layers:
        message = _("There are no days in this period.")
        return Figure("stack", title, message, (), {}, Table((), (), ()), empty=message, reads=False)
    x = [axes.moment(on) for on in convergence.on]
    drawn, labels = _areas(convergence, layers, x)
    of = convergence.entry.name if convergence.method.of == "parent" else convergence.policy_name
    first, last = convergence.on[0], convergence.on[-1]
    return Figure(
        name="stack",
        title=title,
        note=_("Shares of %(name)s") % {"name": of},
        sentence=_sentence(layers),
        traces=drawn,
        layout={
            "margin": axes.margin(44, 158, 26, 24),
            "xaxis": axes.day_axis(first, last, few=True) | {"range": [axes.moment(first), axes.moment(last)]},
            "yaxis": axes.share_axis([], whole=True) | {"range": [0, 100]},
        },
        table=_table(convergence, layers),
        file=file_name(convergence, "stack"),
        caption=caption(convergence),
        labels=labels,
        marks=revision_marks(convergence, links),
        moment_url=moment_url(convergence, links),
    )


Layer = tuple[str, F8, F8]  # label; actual and target by day


def _layers(convergence: Convergence) -> list[Layer]:
    """Layers of the entries with all days visible; from the eighth on the smallest are combined."""
    rows = [
        row
        for row in range(len(convergence.members))
        if convergence.visible[row].all() and np.isfinite(convergence.target[row]).any()
    ]
    target, actual = np.nan_to_num(convergence.target[:, -1]), np.nan_to_num(convergence.actual[:, -1])
    rows.sort(key=lambda row: -max(float(target[row]), float(actual[row])))
    shown, rest = (rows, []) if len(rows) <= _MOST else (rows[: _MOST - 1], rows[_MOST - 1 :])
    shown.sort(key=lambda row: -float(target[row]))
    layers = [
        (convergence.members[row].name, np.nan_to_num(convergence.actual[row]), np.nan_to_num(convergence.target[row]))
        for row in shown
    ]
    if rest:
        used, wanted = (np.nan_to_num(column[rest]).sum(axis=0) for column in (convergence.actual, convergence.target))
        name = ngettext("%(n)s other", "%(n)s others (combined)", len(rest)) % {"n": len(rest)}
        layers.append((name, used, wanted))
    return layers


def _areas(convergence: Convergence, layers: list[Layer], x: list[str]) -> tuple[list[Trace], list[EndLabel]]:
    areas: list[Trace] = []
    borders: list[Trace] = []
    labels = []
    used, wanted = np.zeros(len(x)), np.zeros(len(x))
    for number, (name, actual, target) in enumerate(layers):
        color = traces.series_color(number)
        states = ["on" if abs(a - t) < 5e-4 else "off" for a, t in zip(actual, target, strict=True)]
        words = used_words_of(actual, target, states)
        y = axes.rounded(actual * 100, 2)
        area = traces.line(x, y, name=name, color=color, words=words, width=1.25)
        areas.append(area | {"stackgroup": "shares", "fillcolor": f"{color}/0.26"})
        middle = float(used[-1] + actual[-1] / 2) * 100
        shares = compare_shares(float(actual[-1]), float(target[-1]))
        numbers = {"actual": shares.actual, "target": shares.target}
        labels.append(EndLabel(middle, f"{name}<br>{_('%(actual)s, target %(target)s') % numbers}", color))
        used, wanted = used + actual, wanted + target
        if number < len(layers) - 1:
            borders += traces.target_on_area(x, axes.rounded(wanted * 100, 2))
    return [*areas, *borders], labels


def _sentence(layers: list[Layer]) -> str:
    """Describe the subgroup farthest over its target and the one farthest under."""
    off = sorted(
        ((float(actual[-1] - target[-1]), name, actual, target) for name, actual, target in layers),
        key=lambda row: row[0],
    )
    least, most = off[0], off[-1]
    if most[0] < 5e-4:
        return _("All subgroups are on target.")
    form = _("%(actual)s, target %(target)s")
    sentences = []
    for _off, name, actual, target in (most, least):
        shares = compare_shares(float(actual[-1]), float(target[-1]))
        sentences.append(f"{name}: {form % {'actual': shares.actual, 'target': shares.target}}.")
    return " ".join(sentences)


def _table(convergence: Convergence, layers: list[Layer]) -> Table:
    forms = (_("%(name)s, actual %%"), _("%(name)s, target %%"))
    columns = [Column(form % {"name": name}) for name, _actual, _target in layers for form in forms]
    kinds = [f"{name} {kind}" for name, _a, _t in layers for kind in ("actual_percent", "target_percent")]
    pairs: list[Any] = [column * 100 for _name, actual, target in layers for column in (actual, target)]
    indices = range(len(convergence.on) - 1, -1, -1)
    return Table(
        (Column(_("Day"), is_number=False), *columns),
        [[day_text(convergence.on[at]), *(f"{column[at]:.1f}" for column in pairs)] for at in indices],
        [[axes.moment(convergence.on[at]), *(round(float(column[at]), 4) for column in pairs)] for at in indices],
        header=("day", *kinds),
    )
