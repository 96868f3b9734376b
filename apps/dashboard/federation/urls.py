"""Pages about other authorities: who they are, what is mounted, and how it stands."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.federation import mount_views as federation_mount
from apps.dashboard.federation import views as federation

_MOUNT = "federation/mounts/<int:mount>/"

urlpatterns = [
    path("federation/", federation.peers, name="federation"),
    path("federation/_peers", federation.rows, name="federation-rows"),
    path("federation/mount/", federation.new, name="federation-mount-new"),
    path(_MOUNT, federation_mount.mount, name="federation-mount"),
    path(f"{_MOUNT}_now", federation_mount.now, name="federation-mount-now"),
    path(f"{_MOUNT}looks/", federation_mount.timeline, name="federation-mount-timeline"),
    path(f"{_MOUNT}difference/", federation_mount.difference, name="federation-mount-diff"),
    path(f"{_MOUNT}act/", federation_mount.act, name="federation-mount-act"),
]
