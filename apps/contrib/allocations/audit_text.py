"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.plugins import Addition

SENTENCES = {
    "pack.shared": gettext_lazy("shared a committee pack of %(what)s by a link"),
    "pack.link_revoked": gettext_lazy("revoked a link to a committee pack of %(what)s"),
}
TOPICS = {
    "pack": Addition(gettext_lazy("Committee pack"), after="capacity"),
}
