"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.plugins import Addition
from apps.pages.audit.text import CHANGED, CREATED, REMOVED

SENTENCES = {
    "notice_rule.set": CHANGED,
    "notice_rule.removed": REMOVED,
    "webhook.made": CREATED,
    "webhook.changed": CHANGED,
    "webhook.removed": REMOVED,
    "webhook.secret_renewed": gettext_lazy("gave the webhook %(what)s a new secret"),
    "webhook.turned_on": gettext_lazy("turned the webhook %(what)s on"),
    "webhook.turned_off": gettext_lazy("turned the webhook %(what)s off"),
    "webhook.tested": gettext_lazy("sent a test to the webhook %(what)s"),
    "webhook.gave_up": gettext_lazy("turned the webhook %(what)s off"),
    "statement.closed": gettext_lazy("closed the statements of %(what)s"),
}
TOPICS = {
    "notice_rule": Addition(gettext_lazy("Notice rules"), after="user"),
    "webhook": Addition(gettext_lazy("Webhooks"), after="notice_rule"),
    "statement": Addition(gettext_lazy("Statements"), after="webhook"),
}
