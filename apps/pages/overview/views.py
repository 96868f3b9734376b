"""The home page: of users without a role *My priority*, of others their level as a sentence, then cards that load and
fail one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, Stale, status_of
from apps.core.typed_numbers import read_whole
from apps.pages.overview.attention import list_setup_steps
from apps.pages.overview.cards import draw_card
from apps.pages.overview.presenters import LATER, HomeData, cards_of, children_by_day, convergence_url, draw_deviation
from apps.policies.access.scope import holds_a_role
from apps.policies.requests.group_division import list_managed_groups
from apps.policies.requests.share_requests import answer_requests
from apps.policies.selectors import get_policy
from apps.priorities.pins import pin_entry, unpin_entry
from apps.priorities.selectors import freshness
from apps.web.shell import presentation
from apps.web.shell.figure_frames import answer_figure
from apps.web.shell.navigation import current_policy_slug
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.templatetags.plugin_parts import page_links

_MOST_LATE = 2


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:overview")


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    slug, actor = _policy_slug(request), actor_of(request)
    if slug is None:
        context: dict[str, Any] = {"crumbs": [{"label": _("Home")}], "may_begin": actor.is_admin}
        if actor.is_admin:
            links = page_links("overview.empty")
            context["steps"] = list_setup_steps(
                None, has_sources=len(freshness(actor=actor).inputs) > 1, begin_url=links[0].url if links else ""
            )
        return render(request, "pages/overview/empty.html", context)
    if not holds_a_role(at=clock.now(), actor=actor):
        return redirect("pages:my-priority")
    return _show(request, _data(request, slug))


def _show(request: HttpRequest, data: HomeData, status: int = 200) -> HttpResponse:
    """The page without its cards' data: it checks only whether there is a policy with that level."""
    policy = get_policy(slug=data.policy_slug, actor=data.actor)
    here, cards = page_url() + data.query, cards_of(data)
    context = {
        "cards": {name: draw_card(request, card, here) for name, card in cards.items() if name != LATER},
        "later": children_by_day(data) if data.at else cards[LATER],
        "is_group": bool(data.at),
        "convergence_url": convergence_url(data),
        "policy": policy,
        "level_name": data.view.tree.name[data.at] if data.at else policy.name,
        "late": _late_sentences(data),
        "crumbs": [{"label": _("Home")}],
    }
    return render(request, "pages/overview/overview.html", context, status=status)


def _late_sentences(data: HomeData) -> list[str]:
    """What is late among what the numbers are made of, and since when. Empty before the first numbers."""
    priorities, *sources = data.fresh.inputs
    if priorities.at is None:
        return []
    late = [source for source in sources if source.state != "ok"]
    computed = presentation.clock_time(priorities.at, clock.now())
    sentences = [] if priorities.state == "ok" else [_("Priorities are from %(at)s.") % {"at": computed}]
    for source in late[:_MOST_LATE]:
        words = {"source": source.label, "age": "" if source.age_s is None else presentation.age(source.age_s)}
        text = _("%(source)s has not reported for %(age)s.") if words["age"] else _("%(source)s has never reported.")
        sentences.append(text % words)
    n = len(late) - _MOST_LATE
    if n > 0:
        sentences.append(ngettext("%(n)s more source is late.", "%(n)s more sources are late.", n) % {"n": n})
    return sentences


def _policy_slug(request: HttpRequest) -> str | None:
    """The policy of the address, else the first one with a group of the reader, else the first visible one."""
    slug = current_policy_slug(request)
    if slug is not None and slug != request.GET.get("policy") and not actor_of(request).is_admin:
        led = [group.policy_slug for group in list_managed_groups(at=clock.now(), actor=actor_of(request))]
        slug = slug if slug in led else next(iter(led), slug)
    request.policy_slug = slug  # type: ignore[attr-defined]  # for the frame
    return slug


def _data(request: HttpRequest, slug: str, **more: Any) -> HomeData:
    return HomeData(request, slug, _level(request), **more)


def _level(request: HttpRequest) -> UUID | None:
    text = request.GET.get("level", "")
    try:
        return UUID(text) if text else None
    except ValueError:
        raise NotFound(_("There is no such entry in this policy.")) from None


def _card(name: str) -> Callable[..., HttpResponse]:
    """View of one card; errors are shown in the card, so the response is always a card."""

    @fragment(page_url)
    @require_safe
    def answer(request: HttpRequest) -> HttpResponse:
        data = _data(request, _require_policy(request))
        return HttpResponse(draw_card(request, cards_of(data)[name], page_url() + data.query))

    return answer


def _require_policy(request: HttpRequest) -> str:
    slug = _policy_slug(request)
    if slug is None:
        raise NotFound(_("No policy is visible to you yet"))
    return slug


verdict, children, deviation, recent = (_card(name) for name in ("verdict", "children", "deviation", "recent"))
attention, ends, pins, mine = (_card(name) for name in ("attention", "ends", "pins", "mine"))


@require_safe
def figure(request: HttpRequest, form: str = "json") -> HttpResponseBase:
    """The deviation by day."""
    return answer_figure(request, draw_deviation(_data(request, _require_policy(request))), form)


@require_POST
def decide(request: HttpRequest) -> HttpResponse:
    """Grant or decline the chosen requests. `request`: number and version of each, 12:3; `step`: grant or decline."""
    slug = _require_policy(request)
    text = request.POST.get("text", "")[:4_000]
    try:
        versions = _chosen(request)
        step = request.POST.get("step", "")
        if step not in ("grant", "decline"):
            raise Invalid(_("Choose an action."))
        if step == "decline" and not text.strip():
            raise Invalid(_("Enter a reason to decline."))
        answered = answer_requests(
            versions=versions, grants=step == "grant", text=text, at=clock.now(), actor=actor_of(request)
        )
    except (Invalid, Conflict, Stale) as error:
        data = _data(request, slug, refusal=error.message, refused_text=text)
        return _show(request, data, status=status_of(error))
    if step == "grant":
        revisions = sorted((each.revision for each in answered), key=attrgetter("policy_id", "number"))
        for _policy_id, published in groupby(revisions, key=attrgetter("policy_id")):
            add_published_message(request, *published)
    else:
        n = len(answered)
        messages.success(request, ngettext("%(n)s request declined.", "%(n)s requests declined.", n) % {"n": n})
    return SeeOther(page_url() + _data(request, slug).query)


def _chosen(request: HttpRequest) -> dict[int, int]:
    """Versions by request."""
    versions = {}
    for text in request.POST.getlist("request"):
        number, _colon, version = text.partition(":")
        pair = read_whole(number, 9), read_whole(version, 9)
        if pair[0] is None or pair[1] is None:
            raise Invalid(_("Choose at least one request."))
        versions[pair[0]] = pair[1]
    if not versions:
        raise Invalid(_("Choose at least one request."))
    return versions


@require_POST
def pin(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Pin or unpin an entry. `pinned`: 1 to list it first, 0 to remove it."""
    actor = actor_of(request)
    if request.POST.get("pinned") == "0":
        unpin_entry(policy_slug=policy, uid=uid, actor=actor)
    else:
        pin_entry(policy_slug=policy, uid=uid, at=clock.now(), actor=actor)
    wanted = request.POST.get("next", "")
    is_here = url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) and wanted.startswith("/")
    return SeeOther(wanted if is_here else page_url())
