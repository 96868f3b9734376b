"""Evaluates notice rules: opens, updates and closes notices. Safe to run at any time and concurrently.

Each combination of a kind and a place is one transaction, so that a killed run leaves no half-done work.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.clock_watch import believed
from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, SitePlace, SourcePlace
from apps.contrib.notices.kinds import KINDS
from apps.contrib.notices.models import Notice, Rule
from apps.contrib.notices.rules import RuleIndex, ensure_site_rules
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source

logger = logging.getLogger(__name__)

KEPT_AFTERWARDS = timedelta(days=90)
MOST_OPEN_NOTICES = 1_000  # of one kind in one policy or source, about no single person
MOST_OF_PERSON = 100  # about one person
_WORSE = {"info": 0, "warn": 1, "bad": 2}
_LOCK = 0x6E6F7469  # "noti": serialises evaluations of one kind at one place


def evaluate(*, at: datetime, only: Collection[str] | None = None) -> int:
    """Check everything that rules watch; returns how many notices were opened. A failing kind blocks no other.

    only: names of kinds to check; all by default.
    """
    ensure_site_rules(at=at)
    rules = list(Rule.objects.order_by("pk"))
    # Close notices of archived policies and sources, which are no longer checked.
    archived = Q(policy__archived_at__isnull=False) | Q(source__archived_at__isnull=False)
    _close(list(Notice.objects.filter(archived, closed_at=None)), at)
    n_opened = 0
    for kind in (kind for kind in KINDS if only is None or kind.name in only):
        for check in _CHECKS[kind.watches](RuleIndex(kind, rules), at):
            try:
                n_opened += _update_notices(kind, check, at)
            except DatabaseError:
                if connection.in_atomic_block or not connection.is_usable():
                    raise
                logger.exception("Notices of the kind %s can't be evaluated now.", kind.name)
            except Exception:
                logger.exception("Notices of the kind %s can't be evaluated now.", kind.name)
    delete_old(at=at)
    return n_opened


def delete_old(*, at: datetime) -> int:
    """Delete notices that closed long ago, with their marks."""
    return Notice.objects.filter(closed_at__lt=believed(at) - KEPT_AFTERWARDS).delete()[0]


class _Check:
    """One kind at one place; place is None if its rule is off."""

    def __init__(self, place: Any, *, policy: Policy | None = None, source: Source | None = None) -> None:
        self.place, self.policy, self.source = place, policy, source

    def find(self, kind: Kind) -> list[Finding]:
        findings: dict[str, Finding] = {}
        n_of_person: Counter[int | None] = Counter()
        for finding in kind.find(self.place) if self.place is not None else ():
            if n_of_person[None] == MOST_OPEN_NOTICES:
                break
            if finding.person_id is None or n_of_person[finding.person_id] < MOST_OF_PERSON:
                n_of_person[finding.person_id] += finding.key not in findings
                findings.setdefault(finding.key, finding)
        return list(findings.values())


def _policies(ruling: RuleIndex, at: datetime) -> Iterable[_Check]:
    for policy in Policy.objects.filter(head_number__gt=0).order_by("pk"):
        terms = ruling.for_policy(policy)
        place = None if terms is None else PolicyPlace(policy, load_tree(policy), terms, at, timezone.localdate(at))
        yield _Check(place, policy=policy)


def _sources(ruling: RuleIndex, at: datetime) -> Iterable[_Check]:
    terms = ruling.for_site()
    for source in Source.objects.order_by("pk"):
        yield _Check(None if terms is None else SourcePlace(source, terms, at, timezone.localdate(at)), source=source)


def _site(ruling: RuleIndex, at: datetime) -> Iterable[_Check]:
    terms = ruling.for_site()
    yield _Check(None if terms is None else SitePlace(terms, at, timezone.localdate(at)))


_CHECKS = {"policy": _policies, "source": _sources, "site": _site}


def _update_notices(kind: Kind, check: _Check, at: datetime) -> int:
    """Open new notices, update changed ones, close those that no longer apply. Returns how many were opened."""
    with transaction.atomic():
        _lock(kind, check)
        findings = check.find(kind)
        here = Notice.objects.filter(kind=kind.name, policy=check.policy, source=check.source, closed_at=None)
        known = {notice.key: notice for notice in here.select_for_update(no_key=True)}
        # Notices have their time of opening; an overtaken evaluation must not open older ones.
        opened = [_opened(kind, check, finding, at) for finding in findings if finding.key not in known]
        made = Notice.objects.bulk_create(opened, ignore_conflicts=True)
        for finding in findings:
            if finding.key in known:
                _change(known[finding.key], finding, at)
        _close([notice for key, notice in known.items() if key not in {each.key for each in findings}], at)
    return len(made)


def _lock(kind: Kind, check: _Check) -> None:
    place = f"{kind.name}:{check.policy.pk if check.policy else ''}:{check.source.pk if check.source else ''}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK, place])


def _opened(kind: Kind, check: _Check, finding: Finding, at: datetime) -> Notice:
    return Notice(
        kind=kind.name,
        key=finding.key,
        level=finding.level,
        facts=dict(finding.facts),
        policy=check.policy,
        entry_uid=finding.entry_uid,
        source=check.source,
        opened_at=at,
        news_at=at,
        changed_at=at,
    )


def _change(notice: Notice, finding: Finding, at: datetime) -> None:
    """Update a notice; it becomes unread only if it became worse."""
    if notice.level == finding.level and notice.facts == finding.facts:
        return
    if at < notice.changed_at:
        return
    if _WORSE[finding.level] > _WORSE[notice.level]:
        notice.news_at = at
    notice.level, notice.facts, notice.changed_at = finding.level, dict(finding.facts), at
    notice.save(update_fields=["level", "facts", "changed_at", "news_at"])


def _close(over: Sequence[Notice], at: datetime) -> None:
    for notice in over:
        notice.closed_at = max(at, notice.opened_at)
        notice.save(update_fields=["closed_at"])
