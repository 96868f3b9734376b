"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.federation.fetch_requests import Kind
from apps.pages.federation import page_urls
from apps.pages.federation.api import mounts, overview, published, remotes, subscriptions

_MOUNT = "federation/mounts/<int:mount>"
_SUBSCRIPTION = "federation/subscriptions/<int:subscription>"
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


urlpatterns: list[URLPattern] = []
urlpatterns += page_urls.urlpatterns
rest: list[URLPattern] = [
    path("publications/<str:name>", published.PublicationDocumentView.as_view(), name="publication"),
    path("feeds/<str:name>", published.FeedDocumentView.as_view(), name="feed"),
    path("federation/publications", published.PublicationListView.as_view(), name="published-publications"),
    path("federation/publications/<str:name>", published.PublicationDetailView.as_view(), name="published-publication"),
    path("federation/feeds", published.FeedListView.as_view(), name="published-feeds"),
    path("federation/feeds/<str:name>", published.FeedDetailView.as_view(), name="published-feed"),
    path("federation/peers", overview.PeerListView.as_view(), name="peers"),
    path("federation/grid", overview.GridView.as_view(), name="grid"),
    path("federation/keys", published.KeyListView.as_view(), name="keys"),
    path("federation/mounts", mounts.MountListView.as_view(), name="mounts"),
    path("federation/mounts/preview", mounts.PreviewView.as_view(), name="mount-preview"),
    path(_MOUNT, mounts.MountDetailView.as_view(), name="mount"),
    *_shared("mount", _MOUNT),
    path("federation/subscriptions", subscriptions.SubscriptionListView.as_view(), name="subscriptions"),
    path("federation/subscriptions/preview", subscriptions.FeedPreviewView.as_view(), name="subscription-preview"),
    path(_SUBSCRIPTION, subscriptions.SubscriptionDetailView.as_view(), name="subscription"),
    path(f"{_SUBSCRIPTION}/held-hours", subscriptions.HeldHourListView.as_view(), name="subscription-held-hours"),
    path(
        f"{_SUBSCRIPTION}/agree-capacity",
        subscriptions.CapacityAgreementView.as_view(),
        name="subscription-agree-capacity",
    ),
    *_shared("subscription", _SUBSCRIPTION),
]
