"""Tabs of notices: the list in the inbox, rules with mail and webhooks in the settings, statements of an entry."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from apps.contrib.notices.selectors import UNREAD_IDS, count_unread
from apps.core.plugins import Addition
from apps.web.shell.places import ENTRY, ENTRY_NAMES, Counter, Tab

TABS: Mapping[str, Addition[Tab]] = {
    "notices": Addition(
        Tab(
            place="inbox",
            label=_("Notices"),
            pages=("notice",),
            key="n",
            counter=Counter(_("unread"), UNREAD_IDS, count_unread),
        ),
        after="inbox",
    ),
    "notice-rules": Addition(
        Tab(place="settings", label=_("Notification rules"), pages=("notice-rule", "notice-rule-*", "webhook-*")),
        after="audit",
    ),
    "notice-mail": Addition(
        Tab(place="settings", label=_("E-mail notices"), below="notice-rules"), after="notice-rules"
    ),
    "webhooks": Addition(Tab(place="settings", label=_("Webhooks"), below="notice-rules"), after="notice-mail"),
    "statements": Addition(Tab(place=ENTRY, label=_("Statements"), names=ENTRY_NAMES), after="entry-history"),
}
