"""Requests for shares as text: the same words in the inbox, on the home page and on a group's page."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.requests.share_requests import RequestedShares, RequestState
from apps.priorities.request_evidence import RequestEvidence
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.presentation import long_day


def request_title(story: RequestEvidence, name: str) -> str:
    """A request as a title, such as “seasonal requests 40 shares until 24 February 2027 (now: 30)”."""
    now = story.entry.shares if story.entry else None
    words = {"name": name, "wish": wish_text(story.wish)}
    if story.state is RequestState.OPEN and now is not None and shares_text(story.wish.shares):
        return _("%(name)s requests %(wish)s (now: %(now)s)") % {**words, "now": presentation.shares(now)}
    return _("%(name)s requests %(wish)s") % words


def wish_text(wish: RequestedShares) -> str:
    """Requested shares and end, such as “36 shares until 30 June 2027”."""
    amount = shares_text(wish.shares)
    if not amount:
        return _("until %(day)s") % {"day": long_day(wish.until)} if wish.until else ""
    words = amount if amount.endswith("%") else ngettext("%(n)s share", "%(n)s shares", 2) % {"n": amount}
    return _("%(shares)s until %(day)s") % {"shares": words, "day": long_day(wish.until)} if wish.until else words


def shares_text(shares: Any) -> str:
    if isinstance(shares, dict):
        return numbers.percent(float(shares.get("percent", 0)) / 100)
    return presentation.shares(float(shares)) if isinstance(shares, int | float) else ""
