"""Open notices on the overview, among what needs attention."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.notices.pages.presenters import url_of
from apps.contrib.notices.selectors import list_open_notices
from apps.pages.overview.attention import AttentionItem

_MOST_NOTICES_AT_HOME = 3
# Notices that no other item reports, by the beginning of their sentence's key.
_ONLY_NOTICES = ("over_budget", "recompute_failed", "agent_silent", "stale_peer.blocked")


def notice_items(at: datetime, actor: Actor) -> Iterator[AttentionItem]:
    """Notices that no other item reports."""
    lines = [line for line in list_open_notices(actor, at, limit=50) if line.sentence.key.startswith(_ONLY_NOTICES)]
    for line in lines[:_MOST_NOTICES_AT_HOME]:
        notice = line.notice
        icon, css = ("alert-octagon", "bad") if notice.level == "bad" else ("alert-triangle", "warn")
        yield AttentionItem(
            "notices",
            f"notice.{notice.kind}",
            icon,
            line.sentence.text,
            str(line.kind.title),
            url_of(line),
            _("View"),
            css,
        )
