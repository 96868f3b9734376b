"""Figures of the page *Operators and resolution*: from a question about a policy to the drawn figure."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.analytics.operators.figure_query import NAMES, FigureQuery
from apps.analytics.operators.figures import FIGURES, figure_of
from apps.analytics.operators.policy_query import OperatorQuery
from apps.dashboard.shell import presentation
from apps.dashboard.shell.figure_frames import FigureFrame, framed
from apps.figures import Figure
from apps.figures.operators import DRAWN, Shown


def drawn(asked: OperatorQuery, name: str, address: QueryDict) -> Figure:
    """One figure; NotFound for a name that there isn't."""
    view = asked.view
    found = figure_of(name).table(asked)
    shown = Shown(
        found=found,
        query=asked.query,
        address=address,
        policy=view.policy.slug,
        caption=_caption(asked),
        own=asked.operator.name,
        resolution=int(asked.settings["resolution"]),
        target=asked.target,
        targets=asked.targets,
    )
    return DRAWN[name](shown)


def _caption(asked: OperatorQuery) -> str:
    view = asked.view
    caption = _("%(policy)s, revision %(n)s") % {"policy": view.policy.name, "n": view.revision}
    if view.as_of is None:
        return caption
    return _("%(caption)s, usage as of %(at)s") % {
        "caption": caption,
        "at": presentation.clock_time(view.as_of, view.now),
    }


def frames(
    request: HttpRequest, policy: str, asked: OperatorQuery | None, problem: Exception | None
) -> list[FigureFrame]:
    """All figures of the page; what the address asks for in vain is said in the place of each picture."""

    def make(name: str) -> Figure:
        if asked is None:
            raise problem or LookupError(name)
        return drawn(asked, name, request.GET)

    return [framed(request, source_of(policy, name), lambda name=name: make(name)) for name in FIGURES]  # type: ignore[misc]


def source_of(policy: str, name: str) -> str:
    return reverse("dashboard:operators-figure", kwargs={"policy": policy, "figure": name})


def address_of(query: FigureQuery) -> str:
    """What of a query isn't as it is by default, behind a question mark."""
    plain = FigureQuery()
    given = {name: getattr(query, name) for name in NAMES if getattr(query, name) != getattr(plain, name)}
    return f"?{urlencode(given)}" if given else ""
