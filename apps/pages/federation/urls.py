"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.federation.fetch_requests import Kind
from apps.pages.federation import grid_views as grid
from apps.pages.federation import mount_views as federation_mount
from apps.pages.federation import publication_views as published
from apps.pages.federation import subscription_views as subscriptions
from apps.pages.federation import views as federation
from apps.pages.federation.api import mounts, overview, remotes
from apps.pages.federation.api import published as published_api
from apps.pages.federation.api import subscriptions as subscriptions_api

_MOUNT = "federation/mounts/<int:mount>"
_SUBSCRIPTION = "federation/subscriptions/<int:subscription>"
_MOUNT_PAGE = "federation/mounts/<int:mount>/"
_SUBSCRIPTION_PAGE = "federation/usage/<int:subscription_id>"
_PUBLISHED = "federation/published/"
_FEED = f"{_PUBLISHED}feeds/<str:name>/"
_PUBLICATION = f"{_PUBLISHED}subtrees/<str:name>/"
_STEPS = ("pause", "resume", "freeze", "unfreeze", "reset-history")


def _shared(kind: Kind, where: str) -> list[URLPattern]:
    """Routes that mounts and subscriptions share."""
    steps = [path(f"{where}/{step}", remotes.step_view(kind, step).as_view(), name=f"{kind}-{step}") for step in _STEPS]
    end = "unmount" if kind == "mount" else "unsubscribe"
    return [
        *steps,
        path(f"{where}/trust-key", remotes.trust_key_view(kind).as_view(), name=f"{kind}-trust-key"),
        path(f"{where}/fetch", remotes.fetch_view(kind).as_view(), name=f"{kind}-fetch"),
        path(f"{where}/fetches", remotes.timeline_view(kind).as_view(), name=f"{kind}-fetches"),
        path(f"{where}/{end}", remotes.end_view(kind).as_view(), name=f"{kind}-{end}"),
    ]


urlpatterns: list[URLPattern] = [
    path("federation/", federation.peers, name="federation"),
    path("federation/_peers", federation.rows, name="federation-rows"),
    path("federation/mount/", federation.new, name="federation-mount-new"),
    path(_MOUNT_PAGE, federation_mount.mount, name="federation-mount"),
    path(f"{_MOUNT_PAGE}_now", federation_mount.now, name="federation-mount-now"),
    path(f"{_MOUNT_PAGE}fetches/", federation_mount.timeline, name="federation-mount-timeline"),
    path(f"{_MOUNT_PAGE}difference/", federation_mount.difference, name="federation-mount-diff"),
    path(f"{_MOUNT_PAGE}act/", federation_mount.act, name="federation-mount-act"),
    path("federation/grid/", grid.grid, name="federation-grid"),
    path("federation/grid/figures/flow", grid.flow, name="federation-grid-flow"),
    path("federation/grid/figures/flow.<str:form>", grid.flow),
    path("federation/grid/grid.csv", grid.grid_csv, name="federation-grid-csv"),
    path("federation/usage/new/", subscriptions.new, name="federation-subscription-new"),
    path(f"{_SUBSCRIPTION_PAGE}/", subscriptions.subscription, name="federation-subscription"),
    path(f"{_SUBSCRIPTION_PAGE}/fetches/", subscriptions.timeline, name="federation-subscription-timeline"),
    path(f"{_SUBSCRIPTION_PAGE}/act/", subscriptions.act, name="federation-subscription-act"),
    path(f"{_SUBSCRIPTION_PAGE}/without/", grid.without, name="federation-subscription-without"),
    path(_PUBLISHED, published.published, name="federation-published"),
    path(f"{_PUBLISHED}key/", published.rotate, name="federation-key-rotate"),
    path(f"{_PUBLISHED}new/", published.publication_new, name="federation-publication-new"),
    path(f"{_PUBLISHED}new-feed/", published.feed_new, name="federation-feed-new"),
    path(_PUBLICATION, published.publication, name="federation-publication"),
    path(f"{_PUBLICATION}drop/", published.publication_drop, name="federation-publication-drop"),
    path(_FEED, published.feed, name="federation-feed"),
    path(f"{_FEED}drop/", published.feed_drop, name="federation-feed-drop"),
]
rest: list[URLPattern] = [
    path("publications/<str:name>", published_api.PublicationDocumentView.as_view(), name="publication"),
    path("feeds/<str:name>", published_api.FeedDocumentView.as_view(), name="feed"),
    path("federation/publications", published_api.PublicationListView.as_view(), name="published-publications"),
    path(
        "federation/publications/<str:name>",
        published_api.PublicationDetailView.as_view(),
        name="published-publication",
    ),
    path("federation/feeds", published_api.FeedListView.as_view(), name="published-feeds"),
    path("federation/feeds/<str:name>", published_api.FeedDetailView.as_view(), name="published-feed"),
    path("federation/peers", overview.PeerListView.as_view(), name="peers"),
    path("federation/grid", overview.GridView.as_view(), name="grid"),
    path("federation/keys", published_api.KeyListView.as_view(), name="keys"),
    path("federation/mounts", mounts.MountListView.as_view(), name="mounts"),
    path("federation/mounts/preview", mounts.PreviewView.as_view(), name="mount-preview"),
    path(_MOUNT, mounts.MountDetailView.as_view(), name="mount"),
    *_shared("mount", _MOUNT),
    path("federation/subscriptions", subscriptions_api.SubscriptionListView.as_view(), name="subscriptions"),
    path("federation/subscriptions/preview", subscriptions_api.FeedPreviewView.as_view(), name="subscription-preview"),
    path(_SUBSCRIPTION, subscriptions_api.SubscriptionDetailView.as_view(), name="subscription"),
    path(f"{_SUBSCRIPTION}/held-hours", subscriptions_api.HeldHourListView.as_view(), name="subscription-held-hours"),
    path(
        f"{_SUBSCRIPTION}/agree-capacity",
        subscriptions_api.CapacityAgreementView.as_view(),
        name="subscription-agree-capacity",
    ),
    *_shared("subscription", _SUBSCRIPTION),
]
