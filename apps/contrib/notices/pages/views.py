"""The list of notices, and what a reader does with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actor import Actor
from apps.contrib.notices import selectors
from apps.contrib.notices.kinds import is_kind
from apps.contrib.notices.pages.forms import list_kinds
from apps.contrib.notices.pages.presenters import draw, headline, url_of
from apps.core import clock
from apps.core.errors import Invalid
from apps.core.typed_numbers import read_whole
from apps.policies.selectors import list_policies
from apps.web.shell.requests import SeeOther, actor_of, fragment

SHOWN = 100
STATES = [
    ("open", gettext_lazy("Open")),
    ("unread", gettext_lazy("New")),
    ("snoozed", gettext_lazy("Snooze")),
    ("closed", gettext_lazy("Closed")),
]
SNOOZES = [(1, gettext_lazy("a day")), (7, gettext_lazy("a week")), (30, gettext_lazy("a month"))]
_FILTERS = ("state", "kind", "of")
_LONGEST_BACK = 300
_FIRST = {"bad": 0, "warn": 1, "info": 2}


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:notices")


@require_safe
def follow(request: HttpRequest, notice: int) -> HttpResponse:
    """Redirect a link in a mail to the page that a notice is about, if the reader may still see it."""
    line = selectors.get_notice(id=notice, at=clock.now(), actor=actor_of(request))
    return SeeOther(url_of(line) or reverse("pages:notices"))


@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """List of notices, most severe first; each links to the page that it is about."""
    actor, now = actor_of(request), clock.now()
    own = selectors.list_notices(at=now, actor=actor)
    n_unread = sum(line.is_unread for line in own)
    context = {
        "headline": headline(len(own), n_unread),
        "n_open": len(own),
        "n_unread": n_unread,
        "crumbs": [{"label": _("Notices")}],
        **_list_context(request, actor),
    }
    return render(request, "contrib/notices/notices.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """Fragment with the filtered list."""
    response = render(request, "contrib/notices/_rows.html", _list_context(request, actor_of(request)))
    if request.GET:  # the address keeps the filter, so that a bookmark has it
        response["HX-Replace-Url"] = f"{page_url()}?{request.GET.urlencode()}"
    return response


@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark one notice as read or unread, or as read all up to the newest one that the page showed."""
    actor, now = actor_of(request), clock.now()
    if "up_to" in request.POST:
        n = selectors.mark_all_read(up_to=_number(request, "up_to"), at=now, actor=actor)
        messages.success(
            request, ngettext("%(n)s notice marked as read.", "%(n)s notices marked as read.", n) % {"n": n}
        )
    elif request.POST.get("unread"):
        selectors.mark_unread(id=_number(request, "notice"), at=now, actor=actor)
    else:
        selectors.mark_read(ids=[_number(request, "notice")], at=now, actor=actor)
    return SeeOther(_back(request))


@require_POST
def snooze(request: HttpRequest) -> HttpResponse:
    """Snooze a notice for some days; 0 days ends the snooze."""
    actor, now, days = actor_of(request), clock.now(), _number(request, "days")
    until = now + timedelta(days=min(days, 3660)) if days else None
    selectors.snooze(id=_number(request, "notice"), until=until, at=now, actor=actor)
    messages.success(request, _("Saved"))
    return SeeOther(_back(request))


def _list_context(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    state = request.GET.get("state", "open")
    state = state if state in selectors.STATES else "open"
    kind = request.GET.get("kind", "")
    kind = kind if is_kind(kind) else ""
    policy = request.GET.get("of", "")[:64]
    now = clock.now()
    notice_lines = selectors.list_notices(state=state, kind=kind, policy=policy, limit=SHOWN + 1, at=now, actor=actor)
    shown = notice_lines[:SHOWN]
    if state != "closed":
        shown = sorted(shown, key=lambda line: (_FIRST[line.notice.level], -line.notice.pk))
    return {
        "state": state,
        "states": STATES,
        "kind": kind,
        "kinds": [(each.name, each.title) for each in list_kinds()],
        "of": policy,
        "policies": list_policies(actor=actor),
        "rows": [draw(line) for line in shown],
        "is_more": len(notice_lines) > SHOWN,
        "is_filtered": bool(kind or policy or state != "open"),
        "newest": max((line.notice.pk for line in shown), default=0),
        "snoozes": SNOOZES,
        "here": request.GET.urlencode(),
    }


def _number(request: HttpRequest, name: str) -> int:
    """A hidden number of the form; raises Invalid without one."""
    number = read_whole(request.POST.get(name, ""))
    if number is None:
        raise Invalid(_("Reload the page: %(what)s is missing.") % {"what": name})
    return number


def _back(request: HttpRequest) -> str:
    """URL of the list with the filters that it had; other parameters are dropped."""
    query = request.POST.get("back", "")[:_LONGEST_BACK]
    state = {name: value for name, value in QueryDict(query).items() if name in _FILTERS}
    return page_url() + (f"?{urlencode(state)}" if state else "")
