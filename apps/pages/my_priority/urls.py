"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.my_priority import comparison_card, framed_card, own_cards
from apps.pages.my_priority import views as my_priority
from apps.pages.my_priority.api import comparison
from apps.pages.my_priority.api import views as me

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("me/priority/", my_priority.my_priority, name="my-priority"),
    path("me/priority/_trend", own_cards.trend, name="my-priority-trend"),
    path("me/priority/_figure/<slug:name>", own_cards.figure, name="my-priority-figure"),
    path("me/priority/_charges", own_cards.charges, name="my-priority-charges"),
    path("me/priority/_accounts", own_cards.accounts, name="my-priority-accounts"),
    path("me/priority/_back", own_cards.back, name="my-priority-back"),
    path("me/priority/_details", own_cards.details, name="my-priority-details"),
    path("me/priority/_viewers", own_cards.viewers, name="my-priority-viewers"),
    path("me/priority/_why", comparison_card.why, name="my-priority-why"),
    path("me/priority/figures/<slug:figure>", my_priority.figure, name="my-figure"),
    path("me/priority/figures/<slug:figure>.<str:form>", my_priority.figure),
    path("me/card/", framed_card.card, name="my-card"),
    path("me/accounts/claim/", my_priority.claim, name="claim-account"),
    path("me/accounts/withdraw/", my_priority.withdraw_claim, name="withdraw-claim"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/explain", me.ExplainView.as_view(), name="explain"),
    path(f"{_POLICY}/compare", comparison.CompareView.as_view(), name="compare"),
    path("me", me.MeView.as_view(), name="me"),
    path("me/explain", me.MyExplanationView.as_view(), name="me-explain"),
]
