"""How an address narrows the audit log, and what of it is no filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.dashboard.audit import words as audit_words
from apps.policies.history.audit_reading import AuditFilter, AuditReader

_MOST_TEXT = 128
_MOST_PATH = 4_096
_NAMES = ("q", "who", "verb", "policy", "entry", "via", "outcome", "since", "until")


@dataclass(frozen=True)
class Asked:
    """The filter, and whether it can match anything: an entry that isn't there, or isn't theirs to see, has no rows."""

    filter: AuditFilter
    fields: Mapping[str, str]
    has_entry: bool
    address: str

    @property
    def is_narrowed(self) -> bool:
        return any(self.fields.values())


def asked(request: HttpRequest, reader: AuditReader) -> Asked:
    given = {name: request.GET.get(name, "").strip().replace("\0", "") for name in _NAMES}
    given = {name: text[: _MOST_PATH if name == "entry" else _MOST_TEXT] for name, text in given.items()}
    for name, known in (("via", audit_words.VIAS), ("outcome", audit_words.OUTCOMES)):
        if given[name] and given[name] not in known:
            raise _wrong(name, _("is not a valid choice"))
    entries = _entries(given["entry"], given["policy"], reader)
    wanted = AuditFilter(
        who=given["who"],
        verb=given["verb"],
        policy_slug=given["policy"],
        entries=entries,
        via=given["via"],
        outcome=given["outcome"],
        text=given["q"],
        since=_day(given["since"], "since"),
        until=_day(given["until"], "until", days=1),
    )
    return Asked(wanted, given, bool(entries) or not given["entry"], _address(request))


def row_number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _wrong(name, _("is not a row number"))
    return int(text)


def _entries(text: str, policy_slug: str, reader: AuditReader) -> frozenset[UUID]:
    """A path as it is now, or a uid, by which also what is archived is found."""
    try:
        return frozenset([UUID(text)]) if text else frozenset()
    except ValueError:
        path = text if text.startswith("/") else f"/{text}"
        return reader.entries_at(path.rstrip("/") or "/", policy_slug)


def _day(text: str, name: str, *, days: int = 0) -> datetime | None:
    """A day in the zone of the page; `until` is meant with that day."""
    if not text:
        return None
    try:
        return timezone.make_aware(datetime.fromisoformat(text) + timedelta(days=days)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _wrong(name, _("is not a date")) from None


def _wrong(name: str, problem: str) -> Invalid:
    return Invalid(f"{name} {problem}.", fields=[FieldProblem(name, problem)])


def _address(request: HttpRequest) -> str:
    """What narrows the list, as the end of an address."""
    state = request.GET.copy()
    for name in list(state):
        if name not in _NAMES or not state[name]:
            del state[name]
    return f"?{state.urlencode()}" if state else ""
