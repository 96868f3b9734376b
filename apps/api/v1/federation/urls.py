"""Routes of federation: what others read of ours, and everything that is administered."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.api.v1.federation import mounts, overview, published, steps, subscriptions
from apps.federation.control import Kind

_MOUNT = "federation/mounts/<int:mount>"
_SUBSCRIPTION = "federation/subscriptions/<int:subscription>"
_STEPS = ("pause", "resume", "freeze", "thaw", "begin-anew")


def _of_both(kind: Kind, where: str) -> list[URLPattern]:
    """What is done about either."""
    found = [path(f"{where}/{step}", steps.step_view(kind, step).as_view(), name=f"{kind}-{step}") for step in _STEPS]
    end = "unmount" if kind == "mount" else "unsubscribe"
    return [
        *found,
        path(f"{where}/trust-key", steps.trust_key_view(kind).as_view(), name=f"{kind}-trust-key"),
        path(f"{where}/fetch", steps.fetch_view(kind).as_view(), name=f"{kind}-fetch"),
        path(f"{where}/fetches", steps.timeline_view(kind).as_view(), name=f"{kind}-fetches"),
        path(f"{where}/{end}", steps.end_view(kind).as_view(), name=f"{kind}-{end}"),
    ]


routes = [
    path("publications/<str:name>", published.PublicationDocumentView.as_view(), name="publication"),
    path("feeds/<str:name>", published.FeedDocumentView.as_view(), name="feed"),
    path("federation/publications", published.PublicationListView.as_view(), name="published-publications"),
    path("federation/publications/<str:name>", published.PublicationDetailView.as_view(), name="published-publication"),
    path("federation/feeds", published.FeedListView.as_view(), name="published-feeds"),
    path("federation/feeds/<str:name>", published.FeedDetailView.as_view(), name="published-feed"),
    path("federation/peers", overview.PeerListView.as_view(), name="peers"),
    path("federation/grid", overview.GridView.as_view(), name="grid"),
    path("federation/grid/figures/flow", overview.GridFlowView.as_view(), name="grid-flow"),
    path("federation/keys", published.KeyListView.as_view(), name="keys"),
    path("federation/mounts", mounts.MountListView.as_view(), name="mounts"),
    path("federation/mounts/preview", mounts.PreviewView.as_view(), name="mount-preview"),
    path(_MOUNT, mounts.MountDetailView.as_view(), name="mount"),
    *_of_both("mount", _MOUNT),
    path("federation/subscriptions", subscriptions.SubscriptionListView.as_view(), name="subscriptions"),
    path("federation/subscriptions/preview", subscriptions.FeedPreviewView.as_view(), name="subscription-preview"),
    path(_SUBSCRIPTION, subscriptions.SubscriptionDetailView.as_view(), name="subscription"),
    path(f"{_SUBSCRIPTION}/held-hours", subscriptions.HeldHourListView.as_view(), name="subscription-held-hours"),
    path(
        f"{_SUBSCRIPTION}/agree-capacity",
        subscriptions.CapacityAgreementView.as_view(),
        name="subscription-agree-capacity",
    ),
    *_of_both("subscription", _SUBSCRIPTION),
]
