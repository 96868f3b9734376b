"""Figures of one's own account: its position among the factors of all ranked accounts, and its rank or factor over
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.core.errors import FieldProblem, Invalid
from apps.pages.my_priority.numbers.records import N_BINS, Bin, MyPosition, RankHistory, RankOnDay
from apps.priorities.sentences.numbers import UNKNOWN, clock_text, count, number
from apps.priorities.sentences.numbers import factor as factor_text
from apps.web.figures import axes, traces
from apps.web.figures.figure import (
    Choice,
    Column,
    Control,
    EndLabel,
    Figure,
    Mark,
    Table,
    period_choices,
    read_days,
    with_changes,
)

_LABEL_WIDTH = 0.3  # fraction of the picture on a phone
MEASURES = ("rank", "factor")
DAYS, BY = "rank_days", "rank_by"  # query parameters of the page
_MINUTE = timedelta(minutes=1)


def places_figure(position: MyPosition) -> Figure:
    """Draw bars with the number of users per twentieth of the factor as height, so that a wide bar of few
    users is low.
    """
    title = _("Distribution of factors")
    note = _("users per twentieth of the factor")
    sentence, table = _distribution_sentence(position), _distribution_table(position)
    if not position.bins:
        nothing = axes.empty_layout()
        return Figure("places", title, sentence, (), nothing, table, size="s", empty=_why_empty(position), reads=False)
    heights = [factor_bin.n / (N_BINS * (factor_bin.high - factor_bin.low)) for factor_bin in position.bins]
    return Figure(
        name="places",
        title=title,
        note=note,
        sentence=sentence,
        traces=[_bars(position, heights)],
        layout={
            "margin": axes.margin(44, 12, 26, 40),
            "hovermode": "closest",
            "xaxis": {
                **axes.number_axis(0.0, 1.0),
                "showspikes": False,
                "title": {"text": _("factor: higher is served earlier")},
            },
            "yaxis": axes.amount_axis(heights, most=4),
            "annotations": [_you(position, heights)],
        },
        table=table,
        size="m",
        file=f"fairshare_{position.policy_slug}_places_rev{position.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": position.policy_name, "account": position.account, "n": position.revision},
    )


def _bars(position: MyPosition, heights: list[float]) -> dict[str, Any]:
    middles = [round((factor_bin.low + factor_bin.high) / 2, 4) for factor_bin in position.bins]
    drawn = traces.bars(
        middles,
        [round(height, 4) for height in heights],
        name="",
        color="",
        words=[_bin_text(factor_bin) for factor_bin in position.bins],
    )
    colors = ["$accent" if factor_bin.is_mine else "$level-mark/0.6" for factor_bin in position.bins]
    return drawn | {
        "width": [round((factor_bin.high - factor_bin.low) * 0.94, 4) for factor_bin in position.bins],
        "marker": {"color": colors},
    }


def _you(position: MyPosition, heights: list[float]) -> dict[str, Any]:
    """The label above one's own bar and the bars it would cover; it stays within the picture."""
    factor = position.factor or 0.0
    anchor, left = "center", factor - _LABEL_WIDTH / 2
    if factor < 0.15:
        anchor, left = "left", factor
    elif factor > 0.85:
        anchor, left = "right", factor - _LABEL_WIDTH
    covered = [
        height
        for factor_bin, height in zip(position.bins, heights, strict=True)
        if factor_bin.is_mine or (factor_bin.low < left + _LABEL_WIDTH and factor_bin.high > left)
    ]
    return {
        "x": factor,
        "y": max(covered),
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "xanchor": anchor,
        "text": _("you, %(factor)s") % {"factor": factor_text(position.factor)},
        "font": {"size": 12, "weight": 600, "color": "$accent"},
    }


def _range(factor_bin: Bin) -> str:
    return _("%(first)s to %(last)s") % {"first": number(factor_bin.low, 2), "last": number(factor_bin.high, 2)}


def _bin_text(factor_bin: Bin) -> str:
    values = ngettext("%(n)s user, factor %(range)s", "%(n)s users, factor %(range)s", factor_bin.n)
    text = values % {"n": count(factor_bin.n), "range": _range(factor_bin)}
    return _("%(text)s, including you") % {"text": text} if factor_bin.is_mine else text


def _distribution_sentence(position: MyPosition) -> str:
    if position.rank is None:
        return _("%(account)s has no rank of its own.") % {"account": position.account}
    values = {
        "ahead": count(position.rank - 1),
        "others": count(position.of - 1),
        "behind": count(position.n_behind),
        "same": count(position.n_same),
    }
    if position.of == 1:
        return _("You are the only one with a rank.")
    text = ngettext(
        "%(others)s other: %(ahead)s ahead of you, %(same)s of the same rank, %(behind)s behind.",
        "%(others)s others: %(ahead)s ahead of you, %(same)s of the same rank, %(behind)s behind.",
        position.of - 1,
    )
    return text % values


def _why_empty(position: MyPosition) -> str:
    if position.rank is None:
        return _distribution_sentence(position)
    text = _("Too few ranked users: each bar must cover at least about %(n)s others.")
    return text % {"n": count(position.smallest)}


def _distribution_table(position: MyPosition) -> Table:
    """Highest factor first."""
    bins = position.bins[::-1]
    return Table(
        columns=(Column(_("Factor")), Column(_("Users")), Column(_("You"), is_number=False)),
        rows=[
            [_range(factor_bin), count(factor_bin.n), _("here") if factor_bin.is_mine else ""] for factor_bin in bins
        ],
        raw=[[factor_bin.low, factor_bin.high, factor_bin.n, factor_bin.is_mine] for factor_bin in bins],
        header=("factor_from", "factor_to", "people", "is_mine"),
    )


@dataclass(frozen=True, slots=True)
class RankOptions:
    """days: length of the period; by: `rank` or `factor`."""

    days: int
    by: str


def read_rank(query: QueryDict) -> RankOptions:
    """Parse `?rank_days=30&rank_by=factor`. Raises Invalid, with the parameter's name, for unknown values."""
    days, by = read_days(query, DAYS), query.get(BY, MEASURES[0])
    if by not in MEASURES:
        _reject(BY, _("“%(text)s” is not available over time; rank and factor are.") % {"text": by[:40]})
    return RankOptions(days, by)


def _reject(where: str, message: str) -> None:
    raise Invalid(message, fields=[FieldProblem(where, message)])


def rank_figure(
    history: RankHistory,
    options: RankOptions,
    query: QueryDict,
    *,
    moment_url: str = "",
    mark_url: Callable[[int], str] = lambda _number: "",
) -> Figure:
    """Draw rank or factor over time. mark_url: page of a revision, opened from its mark. moment_url: see Figure."""
    is_rank = options.by == "rank"
    known = [day for day in history.days if _value(day, is_rank) is not None]
    title = _("Rank over time") if is_rank else _("Factor over time")
    controls = _controls(options, query)
    if not known:
        message = ngettext(
            "No stored rank of %(account)s for the last day.",
            "No stored rank of %(account)s for the last %(n)s days.",
            options.days,
        ) % {"account": history.account, "n": options.days}
        layout = axes.empty_layout()
        empty = Table(_columns(), (), ())
        return Figure(
            "rank", title, message, (), layout, empty, size="m", controls=controls, empty=message, reads=False
        )
    last = known[-1]
    at = [_axis_moment(day.as_of) for day in history.days]
    values = [_value(day, is_rank) for day in history.days]
    drawn = traces.line(
        at, values, name=history.account, color="$accent", words=[_words(day) for day in history.days], width=2.25
    )
    end = float(_value(last, is_rank) or 0.0)
    label = _("rank %(n)s") % {"n": count(int(end))} if is_rank else factor_text(end)
    first_at, last_at = (timezone.localtime(day.as_of) for day in (history.days[0], history.days[-1]))
    if last_at - first_at < timedelta(hours=1):
        first_at -= timedelta(hours=1)  # so that a single point is clear of the axis
    return Figure(
        name="rank",
        title=title,
        note=_("1 is served first") if is_rank else _("1 is served first, 0 last"),
        sentence=_sentence(known, options),
        traces=[drawn, traces.end_dot(_axis_moment(last.as_of), end, color="$accent")],
        layout={
            "margin": axes.margin(58 if is_rank else 44, 96, 26, 24),
            "xaxis": axes.day_axis(first_at, max(last_at, first_at + timedelta(hours=1))),
            "yaxis": _rank_axis(known) if is_rank else axes.number_axis(0.0, 1.04),
        },
        table=_table(history.days),
        size="m",
        labels=[EndLabel(end, label, color="$accent")],
        marks=[
            Mark(
                _axis_moment(revision.at),
                _("Rev %(n)s") % {"n": revision.number},
                _("Revision %(n)s") % {"n": revision.number},
                mark_url(revision.number),
            )
            for revision in history.published
        ],
        controls=controls,
        file=f"fairshare_{history.policy_slug}_{options.by}_{options.days}d_rev{history.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": history.policy_name, "account": history.account, "n": history.revision},
        moment_url=moment_url,
    )


def _value(day: RankOnDay, is_rank: bool) -> float | None:
    return day.rank if is_rank else None if day.factor is None else round(day.factor, 6)


def _axis_moment(at: datetime) -> str:
    """Round an instant up to a minute in the site's zone, so that the page of that minute shows its numbers."""
    return axes.moment(at if at == at.replace(second=0, microsecond=0) else at + _MINUTE)


def _words(day: RankOnDay) -> str:
    if day.rank is None:
        return _("no rank")
    values = {"rank": count(day.rank), "of": count(day.of), "factor": factor_text(day.factor)}
    return _("rank %(rank)s of %(of)s, factor %(factor)s") % values


def _sentence(known: Sequence[RankOnDay], options: RankOptions) -> str:
    """Describe the present value, the first one, and the range."""
    is_rank = options.by == "rank"
    first, last = known[0], known[-1]
    shown: Callable[[RankOnDay], str] = (
        (lambda day: count(day.rank or 0)) if is_rank else (lambda day: factor_text(day.factor))
    )
    now = _("%(n)s of %(all)s") % {"n": shown(last), "all": count(last.of)} if is_rank else shown(last)
    words = {"now": now, "day": formats.date_format(timezone.localtime(first.as_of), "j F"), "then": shown(first)}
    if len(known) == 1:
        only = (
            _("Rank: %(now)s. Earlier days are not stored.")
            if is_rank
            else _("Factor: %(now)s. Earlier days are not stored.")
        )
        return only % words
    text = (_("Rank: %(now)s; %(day)s: %(then)s.") if is_rank else _("Factor: %(now)s; %(day)s: %(then)s.")) % words
    ordered = sorted(known, key=lambda day: _value(day, is_rank) or 0.0)
    low, high = shown(ordered[0]), shown(ordered[-1])
    if low == high:
        return text
    between = _("It was between %(low)s and %(high)s.")
    return f"{text} {between % {'low': low, 'high': high}}"


def _rank_axis(known: Sequence[RankOnDay]) -> dict[str, Any]:
    """Rank 1 on top, down to the largest number of ranks."""
    most = max([max(day.of, day.rank or 1) for day in known])
    marks = [1, *(int(tick) for tick in axes.ticks(1, most, 4) if 1 < tick < most * 0.92 and tick == int(tick))]
    texts = [count(tick) for tick in marks]
    if most > 1:
        marks, texts = [*marks, most], [*texts, count(most)]
    pad = max(most * 0.04, 0.3)
    return {"range": [most + pad, 1 - pad], "tickvals": marks, "ticktext": texts}


def _columns() -> tuple[Column, ...]:
    return (Column(_("Day")), Column(_("Rank")), Column(_("Of")), Column(_("Factor")), Column(_("Revision")))


def _table(days: Sequence[RankOnDay]) -> Table:
    """One row per day, newest first."""
    newest = days[::-1]
    return Table(
        columns=_columns(),
        rows=[
            [
                clock_text(day.as_of),
                UNKNOWN if day.rank is None else count(day.rank),
                count(day.of),
                factor_text(day.factor),
                str(day.revision),
            ]
            for day in newest
        ],
        raw=[[day.as_of.isoformat(), day.rank, day.of, day.factor, day.revision] for day in newest],
        header=("as_of", "rank", "of", "factor", "revision"),
    )


def _controls(options: RankOptions, query: QueryDict) -> list[Control]:
    periods = period_choices(query, DAYS, "rank", options.days)
    labels = {"rank": _("Rank"), "factor": _("Factor")}
    measures = [
        Choice(f"rank-by-{by}", labels[by], with_changes(query, **{BY: by}), options.by == by) for by in MEASURES
    ]
    return [Control(_("Period"), periods), Control(_("Measure"), measures)]
