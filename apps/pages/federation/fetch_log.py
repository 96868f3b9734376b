"""The fetch log of a mount or a subscription: one row a fetch, on its page and on a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.typed_numbers import read_whole
from apps.federation.fetch_requests import AnyRemote, Kind, kind_of
from apps.federation.models import Fetch
from apps.pages.federation.presenters import size, took
from apps.priorities.sentences import numbers

_NEWEST, _PAGE = 8, 50
_MOST_CURSOR_DIGITS = 12
_DOTS: Mapping[str, str] = {
    Fetch.Outcome.SAME.value: "ok",
    Fetch.Outcome.APPLIED.value: "ok",
    Fetch.Outcome.HELD.value: "warn",
    Fetch.Outcome.FROZEN.value: "off",
    Fetch.Outcome.REFUSED.value: "bad",
    Fetch.Outcome.UNREACHABLE.value: "bad",
}
# What became of a numbered document: a version of a policy, or a report of usage.
_NUMBERED: Mapping[Kind, Mapping[str, Any]] = {
    "mount": {
        Fetch.Outcome.SAME.value: gettext_lazy("Version %(n)s is unchanged"),
        Fetch.Outcome.APPLIED.value: gettext_lazy("Version %(n)s was applied"),
        Fetch.Outcome.HELD.value: gettext_lazy("Version %(n)s is held for review"),
        Fetch.Outcome.FROZEN.value: gettext_lazy("Version %(n)s was fetched, but not applied"),
    },
    "subscription": {
        Fetch.Outcome.SAME.value: gettext_lazy("Report %(n)s is unchanged"),
        Fetch.Outcome.APPLIED.value: gettext_lazy("Report %(n)s was counted"),
        Fetch.Outcome.HELD.value: gettext_lazy("Report %(n)s was counted in part; the rest is held"),
        Fetch.Outcome.FROZEN.value: gettext_lazy("Report %(n)s was fetched, but not counted"),
    },
}
_UNNUMBERED: Mapping[str, Any] = {
    Fetch.Outcome.SAME.value: gettext_lazy("Unchanged"),
    Fetch.Outcome.APPLIED.value: gettext_lazy("Applied"),
    Fetch.Outcome.HELD.value: gettext_lazy("Held for review"),
    Fetch.Outcome.FROZEN.value: gettext_lazy("Fetched, but not applied"),
    Fetch.Outcome.REFUSED.value: gettext_lazy("Rejected"),
    Fetch.Outcome.UNREACHABLE.value: gettext_lazy("No answer"),
}


@dataclass(frozen=True, slots=True)
class FetchLine:
    """One row of the fetch log. effort: size and duration, if something was received."""

    fetch: Fetch
    dot: str
    outcome: str
    effort: str


def fetch_line(fetch: Fetch, kind: Kind) -> FetchLine:
    outcome = str(_UNNUMBERED[fetch.outcome])
    if fetch.version and fetch.outcome in _NUMBERED[kind]:
        outcome = _NUMBERED[kind][fetch.outcome] % {"n": numbers.count(fetch.version)}
    effort = ""
    if fetch.n_bytes:
        effort = _("%(size)s in %(time)s") % {"size": size(fetch.n_bytes), "time": took(fetch.duration_s)}
    return FetchLine(fetch, _DOTS[fetch.outcome], outcome, effort)


def log_context(remote: AnyRemote) -> dict[str, Any]:
    """The newest fetches, for the page of a mount or subscription, and the address of the others if there are any."""
    newest = list(remote.fetches.order_by("-id")[: _NEWEST + 1])
    name = "federation-mount-timeline" if kind_of(remote) == "mount" else "federation-subscription-timeline"
    return {
        "fetches": [fetch_line(each, kind_of(remote)) for each in newest[:_NEWEST]],
        "log_url": reverse(f"pages:{name}", args=[remote.pk]) if len(newest) > _NEWEST else "",
    }


def show_log(request: HttpRequest, remote: AnyRemote, *, name: str, page_url: str) -> HttpResponse:
    """The page of the whole log, newest first; `?before=` continues it. name: of the other site."""
    before = read_whole(request.GET.get("before", ""), _MOST_CURSOR_DIGITS)
    rows = remote.fetches.order_by("-id")
    shown = list((rows.filter(id__lt=before) if before else rows)[: _PAGE + 1])
    context = {
        "name": name,
        "page_url": page_url,
        "fetches": [fetch_line(each, kind_of(remote)) for each in shown[:_PAGE]],
        "older": shown[_PAGE - 1].pk if len(shown) > _PAGE else None,
        "crumbs": [
            {"label": _("Federation"), "url": reverse("pages:federation")},
            {"label": str(remote), "url": page_url},
            {"label": _("Fetch log")},
        ],
    }
    return render(request, "pages/federation/timeline.html", context)
