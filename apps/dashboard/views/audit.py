"""The audit log: sentences of who did what, as far as one may read it, and whether it still says what it said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps import clock
from apps.accounts.audit_check import last_check
from apps.accounts.models import AuditCheck, AuditEvent
from apps.dashboard import audit_words, presentation
from apps.dashboard.actor import actor_of
from apps.dashboard.htmx import fragment
from apps.dashboard.views.history import compared_context
from apps.errors import DomainError, FieldProblem, Invalid
from apps.policies.audit_reading import AuditFilter, AuditReader
from apps.policies.selectors import list_policies
from apps.priorities.selectors import diff_revisions

PAGE = 50
_MOST_COUNTED = 2_000
_MOST_TEXT = 128
_WEEK = timedelta(days=7)
_NAMES = ("q", "who", "verb", "policy", "entry", "via", "outcome", "since", "until")


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:audit")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """`?row=` shows one of them beside the list; the rest of the address narrows it."""
    reader = AuditReader(actor_of(request), clock.now())
    recent = AuditFilter(since=clock.now() - _WEEK)
    n, n_refused = reader.count(recent, most=_MOST_COUNTED)
    context = {
        **_rows(request, reader),
        "title": audit_words.count_words(n, n_refused, most=_MOST_COUNTED),
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
    reader = AuditReader(actor_of(request), clock.now())
    response = render(request, "dashboard/audit/_rows.html", _rows(request, reader))
    response["HX-Replace-Url"] = f"{page_url()}{_address(request)}"
    return response


@require_safe
@fragment(page_url)
def event(request: HttpRequest) -> HttpResponse:
    """What stands beside the list for one row."""
    reader = AuditReader(actor_of(request), clock.now())
    return render(request, "dashboard/audit/_event.html", _chosen(request, reader))


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """What the list shows, as JSON lines; the last one holds the hash of all before it."""
    reader = AuditReader(actor_of(request), clock.now())
    response = StreamingHttpResponse(_lines(reader, _asked(request)), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="audit-{clock.now():%Y-%m-%d}.jsonl"'
    response["Cache-Control"] = "private, no-store"
    return response


def _lines(reader: AuditReader, wanted: AuditFilter) -> Iterator[bytes]:
    digest, n = hashlib.sha256(), 0
    for each in reader.every(wanted):
        line = json.dumps(told(each, reader), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        n += 1
        yield line
    yield json.dumps({"rows": n, "sha256_of_the_lines_above": digest.hexdigest()}).encode() + b"\n"


def told(event: AuditEvent, reader: AuditReader) -> dict[str, Any]:
    """A row as JSON, without what the reader may not know."""
    found: dict[str, Any] = {
        "id": event.id, "at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"), "actor": event.actor_name,
        "verb": event.verb, "outcome": event.outcome, "policy": event.policy_slug,
        "entry": str(event.entry_uid) if event.entry_uid else None, "subject": event.subject, "reason": event.reason,
        "details": event.details, "via": event.via, "hash": bytes(event.hash).hex(),
    }  # fmt: skip
    if reader.reads_all or reader.is_own(event):
        found |= {"request_id": event.request_id, "token": event.token_prefix}
    if reader.reads_all:
        found |= {"address": event.address, "previous_hash": bytes(event.previous_hash).hex()}
    return found


def _rows(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    wanted = _asked(request)
    page = reader.page(wanted, before=_number(request, "before"), limit=PAGE)
    return {
        "days": audit_words.days(page.events),
        "older": page.next_before,
        "before": request.GET.get("before", ""),
        "asked": {name: request.GET.get(name, "") for name in _NAMES},
        "address": _address(request),
        "topics": audit_words.TOPICS,
        "vias": audit_words.VIAS,
        "outcomes": audit_words.OUTCOMES,
        "policies": list_policies(actor=actor_of(request)),
        "is_narrowed": wanted != AuditFilter(),
    }


def _chosen(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    number = _number(request, "row")
    if number is None:
        return {"chosen": None}
    found = reader.event(number)
    return {
        "chosen": audit_words.sentence(found),
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
    if found is None:
        return {"state": "", "words": _("chain not checked yet")}
    told = {"n": presentation.count(found.n_rows), "time": presentation.clock_time(found.checked_at, clock.now())}
    common = {"found": found, "head": " ".join(_in_fours(bytes(found.head_hash).hex()[:12])), **told}
    if found.broken_id is None:
        return {**common, "state": "ok", "words": _("chain unbroken up to row %(n)s, %(time)s") % told}
    words = _("chain broken at row %(n)s, seen %(time)s") % {**told, "n": presentation.count(found.broken_id)}
    return {**common, "state": "bad", "words": words, "problem": found.problem if shows_all else ""}


def _in_fours(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def _asked(request: HttpRequest) -> AuditFilter:
    given = {name: request.GET.get(name, "").strip().replace("\0", "")[:_MOST_TEXT] for name in _NAMES}
    for name, known in (("via", audit_words.VIAS), ("outcome", audit_words.OUTCOMES)):
        if given[name] and given[name] not in known:
            raise _wrong(name, _("is none of those offered"))
    return AuditFilter(
        who=given["who"], verb=given["verb"], policy_slug=given["policy"], entry=_uid(given["entry"]),
        via=given["via"], outcome=given["outcome"], text=given["q"], since=_day(given["since"], "since"),
        until=_day(given["until"], "until", days=1),
    )  # fmt: skip


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise _wrong("entry", _("is no entry’s uid")) from None


def _day(text: str, name: str, *, days: int = 0) -> datetime | None:
    """A day in the zone of the page; `until` is meant with that day."""
    if not text:
        return None
    try:
        return timezone.make_aware(datetime.fromisoformat(text) + timedelta(days=days)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong(name, _("is no day")) from None


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _wrong(name, _("is no row’s number"))
    return int(text)


def _wrong(name: str, problem: str) -> Invalid:
    return Invalid(f"{name} {problem}.", fields=[FieldProblem(name, problem)])


def _address(request: HttpRequest) -> str:
    """What narrows the list, as the end of an address."""
    state = request.GET.copy()
    for name in list(state):
        if name not in _NAMES or not state[name]:
            del state[name]
    return f"?{state.urlencode()}" if state else ""
