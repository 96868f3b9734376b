"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.access import api as grants
from apps.pages.access import views as access

_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/access/", access.overview, name="access"),
    path("policy/<slug:policy>/access/_grants", access.grants, name="access-grants"),
    path("policy/<slug:policy>/access/_why", access.why, name="access-why"),
    path("policy/<slug:policy>/access/assign/", access.assign, name="access-assign"),
    path("policy/<slug:policy>/access/extend/", access.extend, name="access-extend"),
    path("policy/<slug:policy>/access/<int:grant_id>/", access.grant, name="grant"),
    path("policy/<slug:policy>/access/n/<uuid:uid>/", access.entry, name="entry-roles"),
    path(f"{_NODE}/_access", access.of_entry, name="entry-access"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/grants", grants.GrantListView.as_view(), name="grants"),
    path(f"{_POLICY}/grants/<int:grant>", grants.GrantDetailView.as_view(), name="grant"),
    path(f"{_POLICY}/access", grants.AccessView.as_view(), name="access"),
]
