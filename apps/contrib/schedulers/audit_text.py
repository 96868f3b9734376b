"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.plugins import Addition
from apps.pages.audit.text import CHANGED, CREATED, PAUSED, REMOVED, RESUMED

SENTENCES = {
    "scheduler.connected": CREATED,
    "scheduler.changed": CHANGED,
    "scheduler.paused": PAUSED,
    "scheduler.resumed": RESUMED,
    "scheduler.reset_requested": gettext_lazy("requested to reset every value that the agent of %(what)s set"),
    "scheduler.shares_ordered": gettext_lazy("ordered shares for %(what)s"),
    "scheduler.share_order_cancelled": gettext_lazy("cancelled an order of shares for %(what)s"),
    "scheduler.shares_restored": gettext_lazy("restored former shares in %(what)s"),
    "scheduler.shares_set": gettext_lazy("reported an order of shares for %(what)s"),
    "scheduler.removed": REMOVED,
    "scheduler.agent_began": gettext_lazy("started the agent of %(what)s"),
    "scheduler.agent_frozen": gettext_lazy("reported that the agent of %(what)s froze"),
    "scheduler.agent_went_on": gettext_lazy("reported that the agent of %(what)s continues"),
}
TOPICS = {
    "scheduler": Addition(gettext_lazy("Schedulers"), after="source"),
}
