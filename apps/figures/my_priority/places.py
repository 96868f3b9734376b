"""Distribution of the factors of all ranked accounts, with the place of one's own."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.my_priority.records import N_BINS, Bin, MyPlace
from apps.figures import axes, traces
from apps.figures.figure import Column, Figure, Table
from apps.priorities.sentences.numbers import count, number
from apps.priorities.sentences.numbers import factor as factor_words


def places_figure(found: MyPlace) -> Figure:
    """Bars as high as people in a twentieth of the factor: a wider bar of few people is low."""
    title = _("Distribution of factors")
    note = (
        _("users per twentieth of the factor, computed from the key")
        if found.is_from_key
        else _("users per twentieth of the factor")
    )
    sentence, table = _sentence(found), _table(found)
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


def _bars(found: MyPlace, heights: list[float]) -> dict[str, Any]:
    middles = [round((one.low + one.high) / 2, 4) for one in found.bins]
    drawn = traces.bars(
        middles, [round(one, 4) for one in heights], name="", color="", words=[_words(one) for one in found.bins]
    )
    colors = ["$accent" if one.is_mine else "$level-mark/0.6" for one in found.bins]
    return drawn | {
        "width": [round((one.high - one.low) * 0.94, 4) for one in found.bins],
        "marker": {"color": colors},
    }


def _you(found: MyPlace, heights: list[float]) -> dict[str, Any]:
    """The label on one's own bar; it stays within the picture at either end."""
    at = next(n for n, one in enumerate(found.bins) if one.is_mine)
    factor = found.factor or 0.0
    return {
        "x": factor,
        "y": heights[at],
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "xanchor": "left" if factor < 0.15 else "right" if factor > 0.85 else "center",
        "text": _("you, %(factor)s") % {"factor": factor_words(found.factor)},
        "font": {"size": 12, "weight": 600, "color": "$accent"},
    }


def _range(one: Bin) -> str:
    return _("%(low)s to %(high)s") % {"low": number(one.low, 2), "high": number(one.high, 2)}


def _words(one: Bin) -> str:
    said = ngettext("%(n)s user, factor %(range)s", "%(n)s users, factor %(range)s", one.n)
    text = said % {"n": count(one.n), "range": _range(one)}
    return _("%(text)s, including you") % {"text": text} if one.is_mine else text


def _sentence(found: MyPlace) -> str:
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
    if not found.n_same and found.rank == 1:
        return (
            ngettext("You are ahead of the only other user.", "You are ahead of all %(others)s others.", found.of - 1)
            % said
        )
    if not found.n_same and not found.n_behind:
        return (
            ngettext("The only other user is ahead of you.", "All %(others)s others are ahead of you.", found.of - 1)
            % said
        )
    if found.n_same:
        text = _("%(others)s others: %(ahead)s ahead of you, %(same)s of the same rank, %(behind)s behind.")
        return text % said
    return _("%(others)s others: %(ahead)s ahead of you, %(behind)s behind.") % said


def _why_empty(found: MyPlace) -> str:
    if found.rank is None:
        return _sentence(found)
    text = _("Too few ranked users: each bar must cover at least about %(n)s others.")
    return text % {"n": count(found.smallest)}


def _table(found: MyPlace) -> Table:
    """Highest factor first, as ranks are."""
    bins = found.bins[::-1]
    return Table(
        columns=(Column(_("Factor")), Column(_("Users")), Column(_("You"), is_number=False)),
        rows=[[_range(one), count(one.n), _("here") if one.is_mine else ""] for one in bins],
        raw=[[one.low, one.high, one.n, one.is_mine] for one in bins],
        header=("factor_from", "factor_to", "people", "is_mine"),
    )
