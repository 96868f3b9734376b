"""Other authorities: peers and mounts, the grid view, usage of other sites, and what this site publishes."""

from __future__ import annotations

from django.urls import path

from apps.pages.federation import grid_views as grid
from apps.pages.federation import mount_views as federation_mount
from apps.pages.federation import publication_views as published
from apps.pages.federation import subscription_views as subscriptions
from apps.pages.federation import views as federation

_MOUNT = "federation/mounts/<int:mount>/"
_USAGE = "federation/usage/<int:subscription_id>"
_PUBLISHED = "federation/published/"
_FEED = f"{_PUBLISHED}feeds/<str:name>/"
_PUBLICATION = f"{_PUBLISHED}subtrees/<str:name>/"

urlpatterns = [
    path("federation/", federation.peers, name="federation"),
    path("federation/_peers", federation.rows, name="federation-rows"),
    path("federation/mount/", federation.new, name="federation-mount-new"),
    path(_MOUNT, federation_mount.mount, name="federation-mount"),
    path(f"{_MOUNT}_now", federation_mount.now, name="federation-mount-now"),
    path(f"{_MOUNT}fetches/", federation_mount.timeline, name="federation-mount-timeline"),
    path(f"{_MOUNT}difference/", federation_mount.difference, name="federation-mount-diff"),
    path(f"{_MOUNT}act/", federation_mount.act, name="federation-mount-act"),
    path("federation/grid/", grid.grid, name="federation-grid"),
    path("federation/grid/figures/flow", grid.flow, name="federation-grid-flow"),
    path("federation/grid/figures/flow.<str:form>", grid.flow),
    path("federation/grid/grid.csv", grid.grid_csv, name="federation-grid-csv"),
    path("federation/usage/new/", subscriptions.new, name="federation-subscription-new"),
    path(f"{_USAGE}/", subscriptions.subscription, name="federation-subscription"),
    path(f"{_USAGE}/fetches/", subscriptions.timeline, name="federation-subscription-timeline"),
    path(f"{_USAGE}/act/", subscriptions.act, name="federation-subscription-act"),
    path(f"{_USAGE}/without/", grid.without, name="federation-subscription-without"),
    path(_PUBLISHED, published.published, name="federation-published"),
    path(f"{_PUBLISHED}key/", published.rotate, name="federation-key-rotate"),
    path(f"{_PUBLISHED}new/", published.publication_new, name="federation-publication-new"),
    path(f"{_PUBLISHED}new-feed/", published.feed_new, name="federation-feed-new"),
    path(_PUBLICATION, published.publication, name="federation-publication"),
    path(f"{_PUBLICATION}drop/", published.publication_drop, name="federation-publication-drop"),
    path(_FEED, published.feed, name="federation-feed"),
    path(f"{_FEED}drop/", published.feed_drop, name="federation-feed-drop"),
]
