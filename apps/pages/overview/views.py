"""The overview page: whether usage follows the policy, as a sentence, then cards that load and fail one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import NotFound
from apps.pages.overview.presenters import OverviewData, cards_of, draw_card, draw_deviation, managed_groups
from apps.policies.selectors import get_policy
from apps.priorities.pins import pin_entry, unpin_entry
from apps.web.shell.figure_frames import answer_figure
from apps.web.shell.navigation import current_policy_slug
from apps.web.shell.requests import SeeOther, actor_of, fragment


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:overview")


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The page without its cards' data: it checks only whether there is a policy."""
    slug, actor = current_policy_slug(request), actor_of(request)
    if slug is None:
        crumbs = [{"label": _("Overview")}]
        return render(request, "pages/overview/empty.html", {"crumbs": crumbs, "may_begin": actor.is_admin})
    data = OverviewData(request, slug)
    policy = get_policy(slug=slug, actor=actor)
    here = f"{page_url()}?policy={slug}"
    drawn = {name: draw_card(request, card, here) for name, card in cards_of(data).items()}
    tree = {"label": policy.name, "url": reverse("dashboard:policy", kwargs={"policy": slug})}
    context = {
        "cards": drawn,
        "policy": policy,
        "led": managed_groups(actor, clock.now()),
        "crumbs": [tree, {"label": _("Overview")}],
    }
    return render(request, "pages/overview/overview.html", context)


def _card(name: str) -> Callable[..., HttpResponse]:
    """View of one card; errors are shown in the card, so the response is always a card."""

    @fragment(page_url)
    @require_safe
    def answer(request: HttpRequest) -> HttpResponse:
        slug = current_policy_slug(request)
        if slug is None:
            raise NotFound(_("No policy is visible to you yet"))
        card = cards_of(OverviewData(request, slug))[name]
        return HttpResponse(draw_card(request, card, f"{page_url()}?policy={slug}"))

    return answer


mine, verdict, top, deviation = (_card(name) for name in ("mine", "verdict", "top", "deviation"))
pins, attention, sources, recent = (_card(name) for name in ("pins", "attention", "sources", "recent"))


@require_safe
def figure(request: HttpRequest, form: str = "json") -> HttpResponseBase:
    """The deviation by day."""
    slug = current_policy_slug(request)
    if slug is None:
        raise NotFound(_("No policy is visible to you yet"))
    return answer_figure(request, draw_deviation(OverviewData(request, slug)), form)


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
