"""The table of peers: whom we mount and take usage of, who reads ours, and how fresh it all is."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.federation.grid import peers as room
from apps.federation.grid.peers import Direction


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:federation")


@require_safe
def peers(request: HttpRequest) -> HttpResponse:
    """`?direction=` narrows it."""
    context = {**_rows(request), "crumbs": [{"label": _("Federation")}]}
    return render(request, "dashboard/federation/peers.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """The same again every half minute, unless somebody pauses it; the order stays."""
    return render(request, "dashboard/federation/_peers.html", _rows(request))


def _rows(request: HttpRequest) -> dict[str, Any]:
    now = clock.now()
    found = room.list_peers(at=now, actor=actor_of(request))
    asked = request.GET.get("direction", "")
    chosen = asked if asked in list(Direction) else ""
    counts = [("", _("All"), len(found))]
    counts += [
        (each.value, str(federation_lines.DIRECTIONS[each][1]), sum(peer.direction is each for peer in found))
        for each in Direction
    ]
    return {
        "lines": [federation_lines.peer_line(peer) for peer in found if chosen in ("", peer.direction)],
        "is_empty": not found,
        "chosen": chosen,
        "choices": [
            {"key": key, "label": label, "n": n, "is_chosen": key == chosen} for key, label, n in counts if n or not key
        ],
        "alarms": federation_lines.alarms(found),
        "headline": federation_lines.headline(found),
        "counted": federation_lines.counted(found),
        "now": now,
        "may_mount": bool(room.list_mountable(at=now, actor=actor_of(request))),
    }
