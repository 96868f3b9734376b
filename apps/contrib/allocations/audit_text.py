"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.plugins import Addition
from apps.pages.audit.text import CHANGED, REMOVED, WITHDREW

SENTENCES = {
    "allocation.given": gettext_lazy("allocated an amount to %(what)s"),
    "allocation.changed": CHANGED,
    "allocation.withdrawn": WITHDREW,
    "allocation.requested": gettext_lazy("requested an allocation for %(what)s"),
    "allocation.request_granted": gettext_lazy("granted the request for %(what)s"),
    "allocation.request_declined": gettext_lazy("declined the request for %(what)s"),
    "allocation.request_withdrawn": gettext_lazy("withdrew the request for %(what)s"),
    "allocation.imported": gettext_lazy("imported allocations of %(what)s"),
    "capacity.stated": gettext_lazy("added capacity of %(what)s"),
    "capacity.changed": CHANGED,
    "capacity.removed": REMOVED,
    "pack.shared": gettext_lazy("shared a committee pack of %(what)s by a link"),
    "pack.link_revoked": gettext_lazy("revoked a link to a committee pack of %(what)s"),
}
TOPICS = {
    "allocation": Addition(gettext_lazy("Allocations"), after="mapping"),
    "capacity": Addition(gettext_lazy("Capacity"), after="allocation"),
}
