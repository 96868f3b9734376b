"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

SENTENCES = {
    "policy.sam_rules_set": gettext_lazy("set the rules of the SAM ledger of %(what)s"),
}
