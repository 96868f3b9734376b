"""The audit log: sentences of who did what, as far as one may read it, and whether it still says what it said."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.accounts.audit.check import last_check
from apps.accounts.models import AuditCheck, AuditEvent
from apps.core import clock
from apps.core.errors import DomainError
from apps.dashboard.audit import export as audit_export
from apps.dashboard.audit import words as audit_words
from apps.dashboard.audit.filter import asked, row_number
from apps.dashboard.audit.presenters import Teller
from apps.dashboard.history import pages as history_pages
from apps.dashboard.history.views import compared_context
from apps.dashboard.shell import presentation
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.policies.history.audit_reading import AuditFilter, AuditPage, AuditReader
from apps.policies.selectors import get_policy, list_policies
from apps.priorities.selectors import diff_revisions

PAGE = 50
_WEEK = timedelta(days=7)
_OVERDUE = timedelta(hours=2)  # the chain is checked every hour


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:audit")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """`?row=` shows one of them beside the list; the rest of the address narrows it."""
    reader = _reader(request)
    count = reader.count(AuditFilter(since=clock.now() - _WEEK))
    context = {
        **_rows(request, reader),
        "title": audit_words.count_words(count),
        "count": count,
        "check": _check(last_check(), shows_all=reader.reads_all),
        "shows_all": reader.reads_all,
        "crumbs": [{"label": _("Audit")}],
        **_chosen(request, reader),
    }
    return render(request, "dashboard/audit/audit.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """The list again, narrowed or going on."""
    found = _rows(request, _reader(request))
    response = render(request, "dashboard/audit/_rows.html", {**found, "is_fragment": True})
    response["HX-Replace-Url"] = f"{page_url()}{found['address']}"
    return response


@require_safe
@fragment(page_url)
def event(request: HttpRequest) -> HttpResponse:
    """What stands beside the list for one row."""
    return render(request, "dashboard/audit/_event.html", _chosen(request, _reader(request)))


@require_safe
def export_lines(request: HttpRequest) -> HttpResponseBase:
    reader = _reader(request)
    return audit_export.as_lines(reader, asked(request, reader), clock.now())


@require_safe
def export_table(request: HttpRequest) -> HttpResponseBase:
    reader = _reader(request)
    return audit_export.as_table(reader, asked(request, reader), clock.now())


def _reader(request: HttpRequest) -> AuditReader:
    return AuditReader(actor_of(request), clock.now())


def _rows(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    wanted = asked(request, reader)
    nothing = AuditPage([], None)
    page = reader.page(wanted.filter, before=row_number(request, "before"), limit=PAGE) if wanted.has_entry else nothing
    return {
        "days": _teller(request, reader).days(page.events),
        "older": page.next_before,
        "before": request.GET.get("before", ""),
        "asked": wanted.fields,
        "has_entry": wanted.has_entry,
        "address": wanted.address,
        "topics": audit_words.TOPICS,
        "vias": audit_words.VIAS,
        "outcomes": audit_words.OUTCOMES,
        "policies": list_policies(actor=actor_of(request)),
        "is_narrowed": wanted.is_narrowed,
    }


def _teller(request: HttpRequest, reader: AuditReader) -> Teller:
    @cache
    def may_undo(slug: str) -> bool:
        try:
            policy = get_policy(slug=slug, actor=actor_of(request))
        except DomainError:  # not theirs any more, or gone
            return False
        return history_pages.may_draft(request, policy)

    return Teller(reader, may_undo)


def _chosen(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    number = row_number(request, "row")
    if number is None:
        return {"chosen": None}
    found = reader.event(number)
    return {
        "chosen": _teller(request, reader).sentence(found),
        "facts": audit_words.facts(found, shows_all=reader.reads_all, is_own=reader.is_own(found)),
        "details": audit_words.details(found),
        **_before_and_after(request, found),
    }


def _before_and_after(request: HttpRequest, event: AuditEvent) -> dict[str, Any]:
    """What a published revision changed, as far as the reader sees it."""
    revision = audit_words.revision_of(event)
    if revision < 2:
        return {}
    try:
        found = diff_revisions(
            policy_slug=event.policy_slug, before=revision - 1, after=revision, at=clock.now(), actor=actor_of(request)
        )
    except DomainError:  # a policy or revision that isn't there any more
        return {}
    return {**compared_context(found), "policy": event.policy_slug}


def _check(found: AuditCheck | None, *, shows_all: bool) -> dict[str, Any]:
    """What the last look at the whole chain found: unbroken, broken, or too long ago to say."""
    if found is None:
        return {"state": "warn", "key": "unchecked", "words": _("chain not checked yet")}
    now = clock.now()
    told = {"n": presentation.count(found.n_rows), "time": presentation.clock_time(found.checked_at, now)}
    n_rows = ngettext("%(n)s row", "%(n)s rows", found.n_rows) % told
    common = {"found": found, "head": " ".join(_in_fours(bytes(found.head_hash).hex()[:12])), "n_rows": n_rows, **told}
    if found.broken_id is not None:
        words = _("chain broken at row %(n)s, seen %(time)s") % {**told, "n": presentation.count(found.broken_id)}
        problem = found.problem if shows_all else ""
        return {**common, "state": "bad", "key": "broken", "row": found.broken_id, "words": words, "problem": problem}
    words = _("chain unbroken up to row %(n)s, %(time)s") % told
    is_overdue = now - found.checked_at > _OVERDUE
    state, key = ("warn", "overdue") if is_overdue else ("ok", "unbroken")
    return {**common, "state": state, "key": key, "row": found.n_rows, "words": words, "is_overdue": is_overdue}


def _in_fours(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]
