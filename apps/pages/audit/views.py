"""The audit log page: rows that the reader may see, filters, export, and the check of its hash chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.accounts.audit_log import last_check
from apps.accounts.models import AuditCheck, AuditEvent
from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid
from apps.core.typed_numbers import read_whole
from apps.pages.audit import text as audit_text
from apps.pages.audit.presenters import SentenceFormatter
from apps.policies.audit_reading import AuditFilter, AuditPage, AuditReader
from apps.policies.changesets import drafts
from apps.policies.selectors import get_policy, list_policies
from apps.priorities.selectors import diff_revisions
from apps.priorities.sentences import numbers
from apps.web.changes.revision_comparison import compared_context
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of, csv_response, fragment

_LONGEST_FILTER_TEXT = 128
_MOST_PATH = 4_096
_NAMES = ("q", "who", "verb", "policy", "entry", "via", "outcome", "since", "until")
_COLUMNS = (
    "id",
    "at",
    "actor",
    "verb",
    "outcome",
    "policy",
    "entry",
    "subject",
    "reason",
    "details",
    "via",
    "request_id",
    "token",
    "address",
    "hash",
)
PAGE = 50
_WEEK = timedelta(days=7)
_OVERDUE = timedelta(hours=2)  # the chain is checked every hour


@dataclass(frozen=True)
class RequestedRows:
    """The requested filter. has_entry: false if its entry doesn't exist or isn't visible, so that no row matches."""

    filter: AuditFilter
    fields: Mapping[str, str]
    has_entry: bool
    address: str

    @property
    def is_narrowed(self) -> bool:
        return any(self.fields.values())


def read_filter(request: HttpRequest, reader: AuditReader) -> RequestedRows:
    texts = {name: request.GET.get(name, "").strip().replace("\0", "") for name in _NAMES}
    texts = {name: text[: _MOST_PATH if name == "entry" else _LONGEST_FILTER_TEXT] for name, text in texts.items()}
    for name, known in (("via", audit_text.VIAS), ("outcome", audit_text.OUTCOMES)):
        if texts[name] and texts[name] not in known:
            raise _wrong(name, _("is not a valid choice"))
    entries = _entries(texts["entry"], texts["policy"], reader)
    wanted = AuditFilter(
        who=texts["who"],
        verb=texts["verb"],
        policy_slug=texts["policy"],
        entries=entries,
        via=texts["via"],
        outcome=texts["outcome"],
        text=texts["q"],
        since=_day(texts["since"], "since"),
        until=_day(texts["until"], "until", days=1),
    )
    return RequestedRows(wanted, texts, bool(entries) or not texts["entry"], _address(request))


def row_number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    number = read_whole(text)
    if number is None:
        raise _wrong(name, _("is not a number"))
    return number


def _entries(text: str, policy_slug: str, reader: AuditReader) -> frozenset[UUID]:
    """Uids of an entry by its present path, or by uid, which also finds archived entries."""
    try:
        return frozenset([UUID(text)]) if text else frozenset()
    except ValueError:
        path = text if text.startswith("/") else f"/{text}"
        return reader.entries_at(path.rstrip("/") or "/", policy_slug)


def _day(text: str, name: str, *, days: int = 0) -> datetime | None:
    """Start of a day in the page's time zone. days: 1 for `until`, which includes its day."""
    if not text:
        return None
    try:
        return timezone.make_aware(datetime.fromisoformat(text) + timedelta(days=days)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong(name, _("is not a date and time")) from None


def _wrong(name: str, problem: str) -> Invalid:
    return Invalid(f"{name} {problem}.", fields=[FieldProblem(name, problem)])


def _address(request: HttpRequest) -> str:
    """Query string of the filter."""
    state = request.GET.copy()
    for name in list(state):
        if name not in _NAMES or not state[name]:
            del state[name]
    return f"?{state.urlencode()}" if state else ""


def export_json_lines(reader: AuditReader, wanted: RequestedRows, at: datetime) -> HttpResponseBase:
    """The filtered list as JSON lines, newest first; the last line has the hash of all lines before it."""
    response = StreamingHttpResponse(_lines(reader, wanted), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="audit-{at:%Y-%m-%d}.jsonl"'
    return response


def export_csv(reader: AuditReader, wanted: RequestedRows, at: datetime) -> HttpResponseBase:
    """The filtered list as CSV; values that the reader may not see are empty."""
    rows = (_cells(row_json(event, reader)) for event in _events(reader, wanted))
    return csv_response(f"audit-{at:%Y-%m-%d}.csv", _COLUMNS, rows)


def row_json(event: AuditEvent, reader: AuditReader) -> dict[str, Any]:
    """A row as JSON without values that the reader may not see."""
    fields: dict[str, Any] = {
        "id": event.id,
        "at": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "actor": event.actor_name,
        "verb": event.verb,
        "outcome": event.outcome,
        "policy": event.policy_slug,
        "entry": str(event.entry_uid) if event.entry_uid else None,
        "subject": event.subject,
        "reason": event.reason,
        "details": event.details,
        "via": event.via,
        "hash": bytes(event.hash).hex(),
    }
    if reader.reads_all or reader.is_own(event):
        fields |= {"request_id": event.request_id, "token": event.token_prefix}
    if reader.reads_all:
        fields |= {"address": event.address, "previous_hash": bytes(event.previous_hash).hex()}
    return fields


def _events(reader: AuditReader, wanted: RequestedRows) -> Iterator[AuditEvent]:
    return reader.every(wanted.filter) if wanted.has_entry else iter(())


def _lines(reader: AuditReader, wanted: RequestedRows) -> Iterator[bytes]:
    digest, n = hashlib.sha256(), 0
    for each in _events(reader, wanted):
        line = json.dumps(row_json(each, reader), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        digest.update(line)
        n += 1
        yield line
    yield json.dumps({"rows": n, "sha256_of_the_lines_above": digest.hexdigest()}).encode() + b"\n"


def _cells(row: dict[str, Any]) -> list[Any]:
    row = {**row, "details": json.dumps(row["details"], ensure_ascii=False) if row["details"] else ""}
    return ["" if row.get(name) is None else row[name] for name in _COLUMNS]


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:audit")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """The page. `?row=` shows one row beside the list; other parameters filter the list."""
    reader = _reader(request)
    count = reader.count(AuditFilter(since=clock.now() - _WEEK))
    context = {
        **_rows(request, reader),
        "title": audit_text.count_text(count),
        "count": count,
        "check": _check(last_check(), shows_all=reader.reads_all),
        "shows_all": reader.reads_all,
        "crumbs": [{"label": _("Audit")}],
        **_chosen(request, reader),
    }
    return render(request, "pages/audit/audit.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """The list, filtered or continued."""
    context = _rows(request, _reader(request))
    response = render(request, "pages/audit/_rows.html", {**context, "is_fragment": True})
    response["HX-Replace-Url"] = f"{page_url()}{context['address']}"
    return response


@require_safe
@fragment(page_url)
def event(request: HttpRequest) -> HttpResponse:
    """The panel of one row."""
    return render(request, "pages/audit/_event.html", _chosen(request, _reader(request)))


@require_safe
def export_lines(request: HttpRequest) -> HttpResponseBase:
    reader = _reader(request)
    return export_json_lines(reader, read_filter(request, reader), clock.now())


@require_safe
def export_table(request: HttpRequest) -> HttpResponseBase:
    reader = _reader(request)
    return export_csv(reader, read_filter(request, reader), clock.now())


def _reader(request: HttpRequest) -> AuditReader:
    return AuditReader(actor_of(request), clock.now())


def _rows(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    wanted = read_filter(request, reader)
    nothing = AuditPage([], None)
    page = reader.page(wanted.filter, before=row_number(request, "before"), limit=PAGE) if wanted.has_entry else nothing
    return {
        "days": _formatter(request, reader).days(page.events),
        "older": page.next_before,
        "before": request.GET.get("before", ""),
        "asked": wanted.fields,
        "has_entry": wanted.has_entry,
        "address": wanted.address,
        "topics": audit_text.topics(),
        "vias": audit_text.VIAS,
        "outcomes": audit_text.OUTCOMES,
        "policies": list_policies(actor=actor_of(request)),
        "is_narrowed": wanted.is_narrowed,
    }


def _formatter(request: HttpRequest, reader: AuditReader) -> SentenceFormatter:
    @cache
    def may_undo(slug: str) -> bool:
        try:
            policy = get_policy(slug=slug, actor=actor_of(request))
        except DomainError:  # no longer visible, or removed
            return False
        return drafts.may_draft(policy, actor_of(request), clock.now())

    return SentenceFormatter(reader, may_undo)


def _chosen(request: HttpRequest, reader: AuditReader) -> dict[str, Any]:
    number = row_number(request, "row")
    if number is None:
        return {"chosen": None}
    chosen_event = reader.event(number)
    return {
        "chosen": _formatter(request, reader).sentence(chosen_event),
        "facts": audit_text.facts(chosen_event, shows_all=reader.reads_all, is_own=reader.is_own(chosen_event)),
        "details": audit_text.details(chosen_event),
        **_before_and_after(request, chosen_event),
    }


def _before_and_after(request: HttpRequest, event: AuditEvent) -> dict[str, Any]:
    """Changes of a published revision, as far as the reader sees them."""
    revision = audit_text.revision_of(event)
    if revision < 2:
        return {}
    try:
        diff = diff_revisions(
            policy_slug=event.policy_slug, before=revision - 1, after=revision, at=clock.now(), actor=actor_of(request)
        )
    except DomainError:  # the policy or revision no longer exists
        return {}
    return {**compared_context(diff), "policy": event.policy_slug}


def _check(check: AuditCheck | None, *, shows_all: bool) -> dict[str, Any]:
    """Result of the last check of the whole chain: intact, broken, or overdue."""
    if check is None:
        return {
            "state": "warn",
            "key": "unchecked",
            "words": _("integrity: first check within an hour"),
        }
    now = clock.now()
    values = {"n": numbers.count(check.n_rows), "time": presentation.clock_time(check.checked_at, now)}
    n_rows = ngettext("%(n)s row", "%(n)s rows", check.n_rows) % values
    common = {
        "found": check,
        "head": " ".join(_groups_of_four(bytes(check.head_hash).hex()[:12])),
        "n_rows": n_rows,
        **values,
    }
    if check.broken_id is not None:
        words = _("integrity: chain broken at row %(n)s, %(time)s") % {
            **values,
            "n": numbers.count(check.broken_id),
        }
        problem = check.problem if shows_all else ""
        return {**common, "state": "bad", "key": "broken", "row": check.broken_id, "words": words, "problem": problem}
    words = _("integrity: chain unbroken up to row %(n)s, %(time)s") % values
    is_overdue = now - check.checked_at > _OVERDUE
    state, key = ("warn", "overdue") if is_overdue else ("ok", "unbroken")
    return {**common, "state": state, "key": key, "row": check.n_rows, "words": words, "is_overdue": is_overdue}


def _groups_of_four(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]
