"""The page My priority: the answer for one of the user's accounts and its path; cards follow as fragments."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, status_of
from apps.core.typed_numbers import read_whole
from apps.explain.verdict import unknown_outlook
from apps.mapping import claims
from apps.pages.my_priority.account_choice import choices_of, chosen_address, chosen_of, page_url
from apps.pages.my_priority.cards import cards_of
from apps.pages.my_priority.facts import facts_about
from apps.pages.my_priority.figure_requests import figure_of, read_account
from apps.pages.my_priority.own_cards import CARDS, answer_accounts
from apps.web.changes.claim_form import ClaimForm
from apps.web.shell import time_travel
from apps.web.shell.figure_frames import answer_figure
from apps.web.shell.requests import SeeOther, actor_of, private
from apps.web.texts.account_explanation import build_account_explanation


def page_of(request: HttpRequest, at: int | datetime | None) -> dict[str, Any]:
    """Template context of the page. Without a story: of a time without numbers, or of a reader without accounts."""
    chosen, accounts = chosen_of(request, at)
    moment = chosen.moment if chosen else None
    context: dict[str, Any] = {"story": None, "is_past": at is not None, "time_bar": None, "policy": chosen}
    if chosen is None or (
        chosen.error == "unmapped" and not chosen.namespace
    ):  # the user name stands for accounts that aren't there
        return context | {"look_back": None} | _claimable(request)
    context["time_bar"] = time_travel.time_bar(request, moment, chosen.policy_slug)
    if at is not None and chosen.error == "no_snapshot":
        return context | {"look_back": time_travel.look_back(request, chosen.policy_slug)}
    others = [account for account in accounts if account is not chosen]
    known = [account for account in accounts if not account.error]
    cards = cards_of(request, CARDS, chosen, known, at)
    facts = facts_about(actor_of(request), clock.now(), is_past=at is not None)(chosen)
    if cards.by_place["when"]:  # it comes later
        facts = replace(facts, outlook=unknown_outlook)
    context["story"] = build_account_explanation(chosen, others, facts, time_travel.moment_query(at))
    choices = choices_of(accounts, chosen)
    return context | {
        "cards": cards.by_place,
        "card_scripts": cards.scripts,
        "choices": choices,
    }


def _claimable(request: HttpRequest) -> dict[str, Any]:
    return {"my_accounts": claims.list_my_accounts(actor=actor_of(request)), "claim_form": ClaimForm()}


@require_safe
def my_priority(request: HttpRequest) -> HttpResponse:
    """`?account=` and `?policy=` choose one of several accounts, `?at=` a past moment."""
    if elsewhere := chosen_address(request) or time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    page = page_of(request, time_travel.read_moment_param(request))
    is_live = page["story"] is not None and not page["is_past"]
    context = {**page, "live": is_live, "crumbs": [{"label": _("My priority")}]}
    return private(render(request, "pages/my_priority/priority.html", context))


@require_safe
def figure(request: HttpRequest, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure: `?policy=` and `?entry=` choose the account, other parameters are the state of the page."""
    policy, entry = read_account(request)
    return private(answer_figure(request, figure_of(request, figure, policy, entry), form))


@require_POST
def claim(request: HttpRequest) -> HttpResponse:
    """Claim an account: confirmed at once if its source names users, else by a manager."""
    form = ClaimForm(request.POST)
    if not form.is_valid():
        return answer_accounts(request, form, status=422)
    try:
        settled = claims.claim_account(**form.cleaned_data, at=clock.now(), actor=actor_of(request))
    except (Conflict, Invalid) as error:
        form.add_error(None, error.message)
        return answer_accounts(request, form, status=status_of(error))
    waiting = _("A manager of the account’s group is asked to confirm that it is yours.")
    messages.success(request, _("Confirmed") if settled else waiting)
    return SeeOther(f"{page_url()}#accounts")


@require_POST
def withdraw_claim(request: HttpRequest) -> HttpResponse:
    text = request.POST.get("claim", "")
    claim_id = read_whole(text) or 0
    claims.cancel_claim(claim_id=claim_id, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Withdrawn"))
    return SeeOther(f"{page_url()}#accounts")
