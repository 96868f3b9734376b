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
    "scheduler.followed": gettext_lazy("followed accounts and users of %(what)s"),
    "scheduler.shares_ordered": gettext_lazy("ordered shares for %(what)s"),
    "scheduler.share_order_cancelled": gettext_lazy("cancelled an order of shares for %(what)s"),
    "scheduler.shares_restored": gettext_lazy("restored former shares in %(what)s"),
    "scheduler.shares_set": gettext_lazy("reported an order of shares for %(what)s"),
    "scheduler.limits_changed": gettext_lazy("changed the bounds of limits of %(what)s"),
    "scheduler.limits_requested": gettext_lazy("asked for an approval of limits of %(what)s"),
    "scheduler.limits_approved": gettext_lazy("approved limits of %(what)s"),
    "scheduler.limits_set": gettext_lazy("set limits of accounts in %(what)s"),
    "scheduler.limits_restored": gettext_lazy("restored former limits in %(what)s"),
    "scheduler.limits_ended": gettext_lazy("ended limits on the host of %(what)s"),
    "scheduler.removed": REMOVED,
    "scheduler.agent_began": gettext_lazy("started the agent of %(what)s"),
    "scheduler.agent_frozen": gettext_lazy("reported that the agent of %(what)s froze"),
    "scheduler.agent_went_on": gettext_lazy("reported that the agent of %(what)s continues"),
}
TOPICS = {
    "scheduler": Addition(gettext_lazy("Schedulers"), after="source"),
}
