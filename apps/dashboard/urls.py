"""Pages and, one underscore below each, the fragments they are made of."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.views import entry, me, overview, policy, preferences, sign_in

app_name = "dashboard"
_NODE = "policy/<slug:policy>/n/<uuid:uid>"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("_attention", overview.attention, name="overview-attention"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("theme/", preferences.theme, name="theme"),
    path("me/priority/", me.my_priority, name="my-priority"),
    path("policy/<slug:policy>/", policy.tree, name="policy"),
    path("policy/<slug:policy>/_rows", policy.rows, name="policy-rows"),
    path("policy/<slug:policy>/_search", policy.search, name="policy-search"),
    path("policy/<slug:policy>/_panel", policy.panel, name="policy-panel"),
    path(f"{_NODE}/", entry.find, name="entry-find"),
    path(f"{_NODE}/_preview", entry.preview, name="shares-preview"),
    path(f"{_NODE}/_shares", entry.change_shares, name="shares"),
    path(f"{_NODE}/<slug:name>/", entry.entry, name="entry"),
]
