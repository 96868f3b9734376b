"""Requests for allocations as lines of the inbox."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.contrib.allocations.hours_requests import SeenRequest, list_open_requests
from apps.contrib.allocations.models import AllocationRequest
from apps.contrib.allocations.pages.forms import period_text
from apps.contrib.allocations.pages.presenters import quantity, tab_url
from apps.pages.group.inbox.items import InboxItem

_CSS = {"open": "warn", "granted": "ok", "declined": "bad"}


def request_items(*, at: datetime, actor: Actor) -> Iterator[InboxItem]:
    """Requests that wait for the actor's decision, then those that the actor has sent."""
    waiting, sent = list_open_requests(at=at, actor=actor)
    for seen in waiting:
        yield _item(seen, waits=True)
    for seen in sent:
        yield _item(seen, waits=False)


def request_title(seen: SeenRequest) -> str:
    asked = seen.request
    words = {"name": seen.name, "n": quantity(asked.amount, asked.unit), "days": period_text(seen.days)}
    return _("%(name)s requests %(n)s, %(days)s") % words


def state_badge(asked: AllocationRequest) -> str:
    labels = {"open": _("waiting"), "granted": _("granted"), "declined": _("declined"), "withdrawn": _("withdrawn")}
    return labels[asked.state]


def state_css(asked: AllocationRequest) -> str:
    return _CSS.get(asked.state, "")


def _item(seen: SeenRequest, *, waits: bool) -> InboxItem:
    asked = seen.request
    who = asked.author_name if waits else asked.decided_name
    comment = asked.reason if waits else asked.answer
    text = asked.policy.name
    if comment:
        text = _("%(policy)s. %(who)s: “%(text)s”") % {"policy": text, "who": display_name(who), "text": comment}
    url = tab_url(asked.policy.slug, asked.entry_uid, seen.name)
    return InboxItem(
        key=f"hours-{asked.pk}-{asked.state}",
        title=request_title(seen),
        text=text,
        url=f"{url}?{urlencode({'unit': asked.unit})}#requests",
        badge=state_badge(asked),
        css=state_css(asked),
        state=asked.state,
        at=asked.decided_at or asked.created_at,
        waits=waits,
    )
