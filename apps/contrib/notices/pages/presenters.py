"""Notices as rows of a page: icon, text, and link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.notices.selectors import NoticeLine
from apps.priorities.sentences import numbers
from apps.web.shell import lines

ICONS = {"info": "info-circle", "warn": "alert-triangle", "bad": "alert-octagon"}
BADGES = {"info": "", "warn": "warn", "bad": "bad"}


@dataclass(frozen=True, slots=True)
class DrawnNotice:
    line: NoticeLine
    url: str
    icon: str
    css: str


def draw(line: NoticeLine) -> DrawnNotice:
    return DrawnNotice(line, url_of(line), ICONS[line.notice.level], BADGES[line.notice.level])


def url_of(line: NoticeLine) -> str:
    """URL of the page that a notice is about; empty if it no longer exists."""
    notice, facts = line.notice, line.notice.facts
    policy = notice.policy.slug if notice.policy else ""
    if line.kind.leads_to == "entry" and notice.entry_uid:
        return lines.entry_url(policy, notice.entry_uid, str(facts.get("name", "")))
    route_arguments: dict[str, dict[str, Any]] = {
        "source": {"slug": facts.get("slug")},
        "change": {"change_set": facts.get("change_set")},
        "allocations": {"policy": policy},
        "mappings": {"policy": policy},
        "members": {"policy": policy, "uid": notice.entry_uid},
        "algorithm": {"policy": policy},
        "scheduler": {"name": facts.get("scheduler")},
        "scheduler-shares": {"name": facts.get("scheduler")},
        "scheduler-starts": {"name": facts.get("scheduler")},
        "federation-mount": {"mount": facts.get("mount")},
        "federation-subscription": {"subscription_id": facts.get("subscription")},
    }
    remote = "federation-subscription" if facts.get("is_usage") else "federation-mount"
    route = {"change_set": "change", "remote": remote}.get(line.kind.leads_to, line.kind.leads_to)
    try:
        return reverse(f"pages:{route}", kwargs=route_arguments.get(route, {}))
    except NoReverseMatch:
        return ""


def headline(n_open: int, n_unread: int) -> str:
    if not n_open:
        return _("No open notices")
    words = {"n": numbers.count(n_open), "unread": numbers.count(n_unread)}
    if n_unread:
        text = ngettext("%(n)s open notice, %(unread)s unread", "%(n)s open notices, %(unread)s unread", n_open)
    else:
        text = ngettext("%(n)s open notice", "%(n)s open notices", n_open)
    return text % words
