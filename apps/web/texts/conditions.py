"""Conditions of peers and of mounted documents as badges, and what their stale actions do."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.federation.conditions import Condition
from apps.federation.models import Remote
from apps.web.shell.presentation import KeyedText, StatusBadge

STANDINGS: dict[Condition, StatusBadge] = {
    Condition.BLOCKED: StatusBadge("bad", "alert-octagon", gettext_lazy("blocked"), Condition.BLOCKED),
    Condition.PAUSED: StatusBadge("", "player-pause", gettext_lazy("paused"), Condition.PAUSED),
    Condition.FROZEN: StatusBadge("remote", "lock", gettext_lazy("frozen"), Condition.FROZEN),
    Condition.EXPIRED: StatusBadge("bad", "alert-triangle", gettext_lazy("expired"), Condition.EXPIRED),
    Condition.STALE: StatusBadge("warn", "clock", gettext_lazy("stale"), Condition.STALE),
    Condition.HELD: StatusBadge("warn", "git-pull-request", gettext_lazy("held"), Condition.HELD),
    Condition.LATE: StatusBadge("warn", "clock", gettext_lazy("late"), Condition.LATE),
    Condition.NEW: StatusBadge("", "refresh", gettext_lazy("not fetched yet"), Condition.NEW),
    Condition.FRESH: StatusBadge("ok", "circle-check", gettext_lazy("Current"), Condition.FRESH),
}


def meanwhile(stale_action: str) -> KeyedText:
    """Effect of a stale action on the policy."""
    text = {
        Remote.StaleAction.KEEP.value: _("The current version stays."),
        Remote.StaleAction.FREEZE.value: _("The current version stays."),
        Remote.StaleAction.LOCAL.value: _("Until contact returns, only local usage counts there."),
    }.get(stale_action, "")
    return KeyedText(f"meanwhile.{stale_action}", text)
