"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.plugins import Addition

SENTENCES = {
    "setup.tree_read": gettext_lazy("read a scheduler’s tree for a first policy: %(what)s"),
    "setup.accounts_decided": gettext_lazy("mapped accounts for a first policy: %(what)s"),
    "setup.given_up": gettext_lazy("discarded a first policy: %(what)s"),
}
TOPICS = {
    "setup": Addition(gettext_lazy("First steps"), after="scheduler"),
}
