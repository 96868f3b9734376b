"""The page My priority: explanation for each of the user's accounts, best first, with the cards of plug-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, NotFound, Unavailable, status_of
from apps.core.typed_numbers import read_whole
from apps.explain.contrasts import Comparison, LeafHit, compare_leaves, find_leaves
from apps.explain.messages import reason_in_short
from apps.explain.my_priority import MyPriority, get_my_priority, list_viewers
from apps.explain.path import WalkStep
from apps.mapping import claims
from apps.pages.my_priority import presenters as my_figures
from apps.pages.my_priority.cards import cards_of
from apps.pages.my_priority.facts import facts_about
from apps.pages.my_priority.presenters import trend_of
from apps.priorities.charges import list_newest_charges
from apps.priorities.sentences import text_of
from apps.web.account_explanation import WIDTH, balance_of, build_account_explanation, tolerance_of
from apps.web.charge_listing import CHARGES, unit_of
from apps.web.claim_form import ClaimForm
from apps.web.listing import table_of
from apps.web.shell import lines, time_travel
from apps.web.shell.figure_frames import answer_figure
from apps.web.shell.presentation import Balance
from apps.web.shell.requests import SeeOther, actor_of, fragment, private
from apps.web.svg import bars
from apps.web.svg.bars import Bullet

_NEWEST_CHARGES = 5
_MOST_TYPED = 200


@dataclass(frozen=True)
class OtherAccount:
    """A row of the table of accounts."""

    mine: MyPriority
    url: str
    reason: str
    is_shown: bool


@dataclass(frozen=True)
class Contrasted:
    """One of the two compared entries on the deciding level."""

    name: str
    sentence: str
    bar: Bullet | None
    label: str
    balance: Balance | None


def chosen_of(request: HttpRequest, at: int | datetime | None) -> tuple[MyPriority | None, list[MyPriority]]:
    """The account named in the query string, else the best one; and all accounts."""
    policy = request.GET.get("policy") or None
    if isinstance(at, int):
        found = get_my_priority(actor=actor_of(request), at=at, policy_slug=policy)
    else:
        found = get_my_priority(actor=actor_of(request), at=at)
    known = [mine for mine in found if not mine.error]
    wanted = {name: request.GET.get(name) for name in ("account", "policy", "namespace", "entry")}
    for mine in known:
        own = {"account": mine.account, "policy": mine.policy_slug, "namespace": mine.namespace}
        own["entry"] = str(mine.entry_uid)
        if all(text in (None, own[name]) for name, text in wanted.items()):
            return mine, found
    return next(iter(known), None), found


def page_of(request: HttpRequest, at: int | datetime | None) -> dict[str, Any]:
    """Template context of the page, except the list of accounts and claims."""
    chosen, found = chosen_of(request, at)
    known = [mine for mine in found if not mine.error]
    moment = chosen.moment if chosen else next((mine.moment for mine in found if mine.moment), None)
    context: dict[str, Any] = {
        "story": None,
        "others": [],
        "n_accounts": len(known),
        "unmapped": [mine for mine in found if mine.error == "unmapped"],
        "waiting": [mine for mine in found if mine.error == "no_snapshot"],
        "is_past": at is not None,
        "at": "" if at is None else time_travel.moment_text(at),
        "time_bar": None,
        "policy_slug": chosen.policy_slug if chosen else "",
    }
    if found:
        context["time_bar"] = time_travel.time_bar(request, moment, (chosen or found[0]).policy_slug)
        context["look_back"] = time_travel.look_back(request, (chosen or found[0]).policy_slug)
    if chosen is None:
        return context
    suffix = time_travel.moment_query(at)
    others = [mine for mine in found if mine is not chosen]
    facts_of = facts_about(actor_of(request), clock.now(), is_past=at is not None)
    context["story"] = build_account_explanation(chosen, others, facts_of(chosen), suffix)
    context["others"] = [
        OtherAccount(mine, address_of(mine, at), reason_in_short(mine), mine is chosen) for mine in known
    ]
    context |= why_of(request, chosen, at)
    context["trend"] = None if at is not None else trend_of(request, chosen.policy_slug, chosen.entry_uid)
    cards = cards_of(request, chosen, known, is_past=at is not None)
    context |= {**cards.values, "cards": cards.templates, "card_scripts": cards.scripts}
    if at is None:
        context["charges"] = _charges(request, chosen)
        context["seen"] = list_viewers(chosen, actor=actor_of(request))
        context |= my_figures.frames_of(request, chosen.policy_slug, chosen.entry_uid)
    return context


def address_of(mine: MyPriority, at: int | datetime | None = None, **more: str) -> str:
    """URL of the page for one account."""
    named = {"account": mine.account, "namespace": mine.namespace, "policy": mine.policy_slug}
    named |= {"entry": str(mine.entry_uid)} | ({} if at is None else {"at": time_travel.moment_text(at)})
    return f"{reverse('dashboard:my-priority')}?{urlencode({**named, **more})}"


def why_of(request: HttpRequest, mine: MyPriority, at: int | datetime | None) -> dict[str, Any]:
    """The card "Why them first?": candidates and the comparison; empty if there is no other user."""
    if mine.rank is None or mine.entry_uid is None:
        return {"why": None}
    query, other = request.GET.get("who", "")[:_MOST_TYPED], request.GET.get("other", "")
    named: dict[str, Any] = {"policy_slug": mine.policy_slug, "actor": actor_of(request), "at": at}
    hits = find_leaves(entry_uid=mine.entry_uid, query=query, **named)
    if not hits and not query:
        return {"why": None}
    return {
        "why": {
            "mine": mine,
            "query": query,
            "other": other,
            "hits": [(hit, _with_other(mine, at, hit, query)) for hit in hits],
            **_contrast(mine, other, named),
        },
        "at": "" if at is None else time_travel.moment_text(at),
    }


def _with_other(mine: MyPriority, at: int | datetime | None, hit: LeafHit, query: str) -> str:
    more = {"other": hit.path, **({"who": query} if query else {})}
    return address_of(mine, at, **more).partition("?")[2]


def _contrast(mine: MyPriority, other: str, named: dict[str, Any]) -> dict[str, Any]:
    if not other:
        return {"found": None}
    try:
        found = compare_leaves(one=mine.entry_path, other=other, **named)
    except (NotFound, Invalid, Conflict, Unavailable) as error:
        return {"found": None, "problem": error.message, "problem_code": error.code}
    return {"found": found, **_contrast_parts(found)}


def _contrast_parts(found: Comparison) -> dict[str, Any]:
    """Order first, then the deciding level with both entries, then what would reverse the order."""
    order, *rest = found.sentences
    turns = [one.text for one in rest if one.key.startswith("turn.")]
    level = text_of([one for one in rest if one.key.split(".")[1] != "one" and not one.key.startswith("turn.")])
    steps = [step for step in (found.ahead_step, found.behind_step) if step is not None]
    standing = [one.text for one in rest if one.key.startswith("contrast.one.")]
    drawn = [_drawn(step, text, steps) for step, text in zip(steps, standing, strict=True)] if standing else []
    return {"order": order.text, "level": level, "sides": drawn, "turns": turns}


def _drawn(step: WalkStep, sentence: str, steps: Sequence[WalkStep]) -> Contrasted:
    if step.target is None:
        return Contrasted(step.name, sentence, None, "", None)
    known = None if step.state == "unknown" else step.actual
    scale = bars.share_scale([(each.actual or 0.0, each.target or 0.0) for each in steps])
    balance = balance_of(step, known)
    tolerance = tolerance_of(step)
    bar = bars.draw(
        actual=known, target=step.target, maximum=scale, state=balance.state, width=WIDTH, tolerance=tolerance
    )
    return Contrasted(step.name, sentence, bar, lines.bar_label(known, step.target, tolerance), balance)


def _charges(request: HttpRequest, mine: MyPriority) -> dict[str, Any]:
    """The user's jobs that started last, with the charge of each."""
    try:
        page = list_newest_charges(policy_slug=mine.policy_slug, limit=_NEWEST_CHARGES, actor=actor_of(request))
    except DomainError:
        return {"jobs": None}
    return {"jobs": table_of(CHARGES, page.jobs, "card"), "unit": unit_of(page.settings)}


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:my-priority")


@require_safe
def my_priority(request: HttpRequest) -> HttpResponse:
    """`?account=` and `?policy=` choose one of several accounts, `?at=` a past moment."""
    if elsewhere := time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    return _show(request)


@require_safe
@fragment(page_url)
def why(request: HttpRequest) -> HttpResponse:
    """The card that compares another user: `?who=` searches, `?other=` chooses."""
    at = time_travel.read_moment_param(request)
    chosen, _found = chosen_of(request, at)
    context = {"why": None} if chosen is None else why_of(request, chosen, at)
    return private(render(request, "pages/my_priority/_why.html", context))


@require_safe
def figure(request: HttpRequest, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure: `?policy=` and `?entry=` choose the account, other parameters are the state of the page."""
    policy, entry = my_figures.read_account(request)
    return private(answer_figure(request, my_figures.figure_of(request, figure, policy, entry), form))


@require_POST
def claim(request: HttpRequest) -> HttpResponse:
    """Claim an account: confirmed at once if its source names users, else by a manager."""
    form = ClaimForm(request.POST)
    if not form.is_valid():
        return _show(request, claim_form=form, status=422)
    try:
        settled = claims.claim_account(**form.cleaned_data, at=clock.now(), actor=actor_of(request))
    except (Conflict, Invalid) as error:
        form.add_error(None, error.message)
        return _show(request, claim_form=form, status=status_of(error))
    waiting = _("A manager of the account’s group is asked to confirm that it is yours.")
    messages.success(request, _("Confirmed") if settled else waiting)
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


@require_POST
def withdraw_claim(request: HttpRequest) -> HttpResponse:
    text = request.POST.get("claim", "")
    claim_id = read_whole(text) or 0
    claims.cancel_claim(claim_id=claim_id, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Withdrawn"))
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


def _show(request: HttpRequest, *, status: int = 200, claim_form: ClaimForm | None = None) -> HttpResponse:
    page = page_of(request, time_travel.read_moment_param(request))
    context = {
        **page,
        "live": bool(page.get("figures")),
        "my_accounts": claims.list_my_accounts(actor=actor_of(request)),
        "claim_form": claim_form or ClaimForm(),
        "crumbs": [{"label": _("My priority")}],
    }
    return private(render(request, "pages/my_priority/priority.html", context, status=status))
