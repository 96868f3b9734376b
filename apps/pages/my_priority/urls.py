"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.my_priority import views as my_priority
from apps.pages.my_priority.api import comparison
from apps.pages.my_priority.api import views as me

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("me/priority/", my_priority.my_priority, name="my-priority"),
    path("me/priority/_why", my_priority.why, name="my-priority-why"),
    path("me/priority/figures/<slug:figure>", my_priority.figure, name="my-figure"),
    path("me/priority/figures/<slug:figure>.<str:form>", my_priority.figure),
    path("me/accounts/claim/", my_priority.claim, name="claim-account"),
    path("me/accounts/withdraw/", my_priority.withdraw_claim, name="withdraw-claim"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/explain", me.ExplainView.as_view(), name="explain"),
    path(f"{_POLICY}/compare", comparison.CompareView.as_view(), name="compare"),
    path("me", me.MeView.as_view(), name="me"),
    path("me/explain", me.MyExplanationView.as_view(), name="me-explain"),
]
