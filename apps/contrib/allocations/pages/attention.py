"""Core-hours that end without a successor, on the overview, among what needs attention."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.allocations.upcoming import get_ending_soon
from apps.pages.overview.attention import ENDS, MOST_OF_ATTENTION, AttentionItem
from apps.priorities.selectors.rows import PolicyView

ENDING_DAYS = 60


def ending_items(view: PolicyView, actor: Actor) -> Iterator[AttentionItem]:
    """Allocations that end soon, for those who may renew them."""
    zone, slug = ZoneInfo(settings.TIME_ZONE), view.policy.slug
    soon = get_ending_soon(policy_slug=slug, zone=zone, days=ENDING_DAYS, actor=actor)
    allocations = [e for e in soon.events if e.allocation is not None and not e.is_covered and soon.may_allocate(e.uid)]
    for event in allocations[:MOST_OF_ATTENTION]:
        title = _("Allocation of %(name)s") % {"name": event.name}
        url = reverse("pages:allocations", kwargs={"policy": slug})
        text, action = _("No renewal is planned."), _("Renew allocation")
        yield AttentionItem(ENDS, "core_hours_end", "calendar", title, text, url, action, day=event.on)
