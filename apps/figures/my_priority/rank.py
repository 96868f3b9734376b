"""One's own place: among the factors of all ranked accounts now, and rank or factor over the last days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.my_priority.records import N_BINS, Bin, MyPosition, RankHistory, RankOnDay
from apps.core.errors import FieldProblem, Invalid
from apps.figures import axes, traces
from apps.figures.figure import Choice, Column, Control, EndLabel, Figure, Mark, Table, changed
from apps.priorities.sentences.numbers import UNKNOWN, count, number
from apps.priorities.sentences.numbers import factor as factor_words


# --- Places -----------------------------------------------------------------------------------------------------------
def places_figure(found: MyPosition) -> Figure:
    """Bars as high as people in a twentieth of the factor: a wider bar of few people is low."""
    title = _("Distribution of factors")
    note = _("users per twentieth of the factor")
    sentence, table = _place_sentence(found), _place_table(found)
    if not found.bins:
        nothing = {"margin": axes.margin(), "xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}
        return Figure("places", title, sentence, (), nothing, table, size="s", empty=_why_empty(found), reads=False)
    heights = [one.n / (N_BINS * (one.high - one.low)) for one in found.bins]
    return Figure(
        name="places",
        title=title,
        note=note,
        sentence=sentence,
        traces=[_bars(found, heights)],
        layout={
            "margin": axes.margin(44, 12, 26, 40),
            "hovermode": "closest",
            "xaxis": {
                **axes.number_axis(0.0, 1.0),
                "showspikes": False,
                "title": {"text": _("factor: higher is served earlier")},
            },
            "yaxis": axes.amount_axis(heights, most=4),
            "annotations": [_you(found, heights)],
        },
        table=table,
        size="m",
        file=f"fairshare_{found.policy_slug}_places_rev{found.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": found.policy_name, "account": found.account, "n": found.revision},
    )


def _bars(found: MyPosition, heights: list[float]) -> dict[str, Any]:
    middles = [round((one.low + one.high) / 2, 4) for one in found.bins]
    drawn = traces.bars(
        middles, [round(one, 4) for one in heights], name="", color="", words=[_bin_words(one) for one in found.bins]
    )
    colors = ["$accent" if one.is_mine else "$level-mark/0.6" for one in found.bins]
    return drawn | {
        "width": [round((one.high - one.low) * 0.94, 4) for one in found.bins],
        "marker": {"color": colors},
    }


_LABEL_WIDTH = 0.3  # of the picture, on a phone


def _you(found: MyPosition, heights: list[float]) -> dict[str, Any]:
    """The label above one's own bar and those that it would cover; it stays within the picture at either end."""
    factor = found.factor or 0.0
    anchor, left = "center", factor - _LABEL_WIDTH / 2
    if factor < 0.15:
        anchor, left = "left", factor
    elif factor > 0.85:
        anchor, left = "right", factor - _LABEL_WIDTH
    covered = [
        height
        for one, height in zip(found.bins, heights, strict=True)
        if one.is_mine or (one.low < left + _LABEL_WIDTH and one.high > left)
    ]
    return {
        "x": factor,
        "y": max(covered),
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "xanchor": anchor,
        "text": f"{_('you')}, {factor_words(found.factor)}",
        "font": {"size": 12, "weight": 600, "color": "$accent"},
    }


def _range(one: Bin) -> str:
    return _("%(first)s to %(last)s") % {"first": number(one.low, 2), "last": number(one.high, 2)}


def _bin_words(one: Bin) -> str:
    said = ngettext("%(n)s user, factor %(range)s", "%(n)s users, factor %(range)s", one.n)
    text = said % {"n": count(one.n), "range": _range(one)}
    return _("%(text)s, including you") % {"text": text} if one.is_mine else text


def _place_sentence(found: MyPosition) -> str:
    if found.rank is None:
        return _("%(account)s has no rank of its own.") % {"account": found.account}
    said = {
        "ahead": count(found.rank - 1),
        "others": count(found.of - 1),
        "behind": count(found.n_behind),
        "same": count(found.n_same),
    }
    if found.of == 1:
        return _("You are the only one with a rank.")
    text = ngettext(
        "%(others)s other: %(ahead)s ahead of you, %(same)s of the same rank, %(behind)s behind.",
        "%(others)s others: %(ahead)s ahead of you, %(same)s of the same rank, %(behind)s behind.",
        found.of - 1,
    )
    return text % said


def _why_empty(found: MyPosition) -> str:
    if found.rank is None:
        return _place_sentence(found)
    text = _("Too few ranked users: each bar must cover at least about %(n)s others.")
    return text % {"n": count(found.smallest)}


def _place_table(found: MyPosition) -> Table:
    """Highest factor first, as ranks are."""
    bins = found.bins[::-1]
    return Table(
        columns=(Column(_("Factor")), Column(_("Users")), Column(_("You"), is_number=False)),
        rows=[[_range(one), count(one.n), _("here") if one.is_mine else ""] for one in bins],
        raw=[[one.low, one.high, one.n, one.is_mine] for one in bins],
        header=("factor_from", "factor_to", "people", "is_mine"),
    )


# --- Rank -------------------------------------------------------------------------------------------------------------
PERIODS_DAYS = (14, 30, 90, 365)
USUAL_DAYS = 30
MEASURES = ("rank", "factor")
DAYS, BY = "rank_days", "rank_by"  # names in the query of the page
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RankAsked:
    """days: how far back; by: `rank` or `factor`."""

    days: int
    by: str


def read_rank(query: QueryDict) -> RankAsked:
    """`?rank_days=30&rank_by=factor`. Raises Invalid, with the name in the address, for what doesn't exist."""
    days, by = query.get(DAYS, str(USUAL_DAYS)), query.get(BY, MEASURES[0])
    if days not in {str(one) for one in PERIODS_DAYS}:
        message = _("“%(text)s” is not one of %(known)s.")
        _refuse(DAYS, message % {"text": days[:40], "known": ", ".join(map(str, PERIODS_DAYS))})
    if by not in MEASURES:
        _refuse(BY, _("“%(text)s” is not available over time; rank and factor are.") % {"text": by[:40]})
    return RankAsked(int(days), by)


def _refuse(where: str, message: str) -> None:
    raise Invalid(message, fields=[FieldProblem(where, message)])


def rank_figure(
    found: RankHistory,
    asked: RankAsked,
    query: QueryDict,
    *,
    moment_url: str = "",
    mark_url: Callable[[int], str] = lambda _number: "",
) -> Figure:
    """mark_url: the page of a revision, opened from its mark. moment_url: see Figure."""
    is_rank = asked.by == "rank"
    known = [then for then in found.days if _value(then, is_rank) is not None]
    title = _("Rank over time") if is_rank else _("Factor over time")
    controls = _controls(asked, query)
    if not known:
        message = ngettext(
            "No stored rank of %(account)s for the last day.",
            "No stored rank of %(account)s for the last %(n)s days.",
            asked.days,
        ) % {"account": found.account, "n": asked.days}
        layout = {"margin": axes.margin(), "xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}
        empty = Table(_columns(), (), ())
        return Figure(
            "rank", title, message, (), layout, empty, size="m", controls=controls, empty=message, reads=False
        )
    last = known[-1]
    at = [_place(then.as_of) for then in found.days]
    values = [_value(then, is_rank) for then in found.days]
    drawn = traces.line(
        at, values, name=found.account, color="$accent", words=[_words(then) for then in found.days], width=2.25
    )
    end = float(_value(last, is_rank) or 0.0)
    label = _("rank %(n)s") % {"n": count(int(end))} if is_rank else factor_words(end)
    first_at, last_at = (timezone.localtime(one.as_of) for one in (found.days[0], found.days[-1]))
    if last_at - first_at < timedelta(hours=1):
        first_at -= timedelta(hours=1)  # a single point stands clear of the axis
    return Figure(
        name="rank",
        title=title,
        note=_("1 is served first") if is_rank else _("1 is served first, 0 last"),
        sentence=_sentence(known, asked),
        traces=[drawn, traces.end_dot(_place(last.as_of), end, color="$accent")],
        layout={
            "margin": axes.margin(58 if is_rank else 44, 96, 26, 24),
            "xaxis": axes.day_axis(first_at, max(last_at, first_at + timedelta(hours=1))),
            "yaxis": _rank_axis(known) if is_rank else axes.number_axis(0.0, 1.04),
        },
        table=_table(found.days),
        size="m",
        labels=[EndLabel(end, label, color="$accent")],
        marks=[
            Mark(
                _place(one.at),
                _("Rev %(n)s") % {"n": one.number},
                _("Revision %(n)s") % {"n": one.number},
                mark_url(one.number),
            )
            for one in found.published
        ],
        controls=controls,
        file=f"fairshare_{found.policy_slug}_{asked.by}_{asked.days}d_rev{found.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": found.policy_name, "account": found.account, "n": found.revision},
        moment_url=moment_url,
    )


def _value(then: RankOnDay, is_rank: bool) -> float | None:
    return then.rank if is_rank else None if then.factor is None else round(then.factor, 6)


def _place(at: datetime) -> str:
    """A minute of the site's zone that isn't before the instant: the page of that minute shows its numbers."""
    local = timezone.localtime(at)
    return axes.moment(local if local == local.replace(second=0, microsecond=0) else local + _MINUTE)


def _words(then: RankOnDay) -> str:
    if then.rank is None:
        return _("no rank")
    said = {"rank": count(then.rank), "of": count(then.of), "factor": factor_words(then.factor)}
    return _("rank %(rank)s of %(of)s, factor %(factor)s") % said


def _day(then: RankOnDay) -> str:
    return formats.date_format(timezone.localtime(then.as_of), "j F")


def _sentence(known: Sequence[RankOnDay], asked: RankAsked) -> str:
    """Where the account is now, where it was at the beginning, and between what it was."""
    is_rank = asked.by == "rank"
    first, last = known[0], known[-1]
    shown: Callable[[RankOnDay], str] = (
        (lambda then: count(then.rank or 0)) if is_rank else (lambda then: factor_words(then.factor))
    )
    now = _("%(n)s of %(all)s") % {"n": shown(last), "all": count(last.of)} if is_rank else shown(last)
    text = f"{_('Rank') if is_rank else _('Factor')}: {now}"
    if len(known) == 1:
        return f"{text}. {_('Earlier days are not stored.')}"
    text = f"{text}; {_day(first)}: {shown(first)}."
    ordered = sorted(known, key=lambda then: _value(then, is_rank) or 0.0)
    low, high = shown(ordered[0]), shown(ordered[-1])
    if low == high:
        return text
    between = _("It was between %(low)s and %(high)s.")
    return f"{text} {between % {'low': low, 'high': high}}"


def _rank_axis(known: Sequence[RankOnDay]) -> dict[str, Any]:
    """Rank 1 on top, as many ranks as there were."""
    most = max([max(then.of, then.rank or 1) for then in known])
    marks = [1, *(int(one) for one in axes.ticks(1, most, 4) if 1 < one < most * 0.92 and one == int(one))]
    texts = [count(one) for one in marks]
    if most > 1:
        marks, texts = [*marks, most], [*texts, count(most)]
    pad = max(most * 0.04, 0.3)
    return {"range": [most + pad, 1 - pad], "tickvals": marks, "ticktext": texts}


def _columns() -> tuple[Column, ...]:
    return (Column(_("Day")), Column(_("Rank")), Column(_("Of")), Column(_("Factor")), Column(_("Revision")))


def _table(days: Sequence[RankOnDay]) -> Table:
    """Newest first."""
    newest = days[::-1]
    return Table(
        columns=_columns(),
        rows=[
            [
                formats.date_format(timezone.localtime(then.as_of), "j M Y, H:i"),
                UNKNOWN if then.rank is None else count(then.rank),
                count(then.of),
                factor_words(then.factor),
                str(then.revision),
            ]
            for then in newest
        ],
        raw=[[then.as_of.isoformat(), then.rank, then.of, then.factor, then.revision] for then in newest],
        header=("as_of", "rank", "of", "factor", "revision"),
    )


def _controls(asked: RankAsked, query: QueryDict) -> list[Control]:
    periods = [
        Choice(
            f"rank-{days}",
            _("%(n)s d") % {"n": days} if days < 365 else _("1 y"),
            changed(query, **{DAYS: str(days)}),
            asked.days == days,
        )
        for days in PERIODS_DAYS
    ]
    labels = {"rank": _("Rank"), "factor": _("Factor")}
    measures = [Choice(f"rank-by-{by}", labels[by], changed(query, **{BY: by}), asked.by == by) for by in MEASURES]
    return [Control(_("Period"), periods), Control(_("Measure"), measures)]
