"""Rows of the audit log as sentences under headings by day, with links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import UUID

from django.urls import NoReverseMatch, reverse
from django.utils.timezone import localdate
from django.utils.translation import gettext as _

from apps.accounts.models import AuditEvent
from apps.core import clock
from apps.pages.audit.text import AT_AN_ENTRY, OUTCOMES, VIAS, revision_of, sentence_of
from apps.policies.audit_reading import AuditReader
from apps.web.shell.presentation import day_heading

_CHANGE_SET = re.compile(r"change set (\d{1,9})")
_GAP = "\0"  # marks the link's place in a sentence: no text of the log contains it


@dataclass(frozen=True, slots=True)
class Sentence:
    """One row: text before and after its subject. more: rows of the same request."""

    event: AuditEvent
    before: str
    what: str
    url: str
    after: str
    note: str
    via: str
    outcome: str
    undo_url: str
    more: tuple[Sentence, ...] = ()

    @property
    def is_person(self) -> bool:
        return self.event.actor_id is not None


class SentenceFormatter:
    """Formats rows for one reader, with names and links only of what the reader may open."""

    def __init__(self, reader: AuditReader, may_undo: Callable[[str], bool]) -> None:
        self._reader, self._may_undo = reader, may_undo

    def days(self, events: Sequence[AuditEvent]) -> list[tuple[str, bool, list[Sentence]]]:
        """Rows by day, those of one request in one place grouped, in the log's order: last recorded first.

        With each day, whether it was recorded late: after a newer one.
        """
        lines_by_day: list[tuple[str, list[Sentence]]] = []
        for group in _by_request(events):
            first, *rest = (self.sentence(event) for event in group)
            heading = day_heading(first.event.at, clock.now())
            if not lines_by_day or lines_by_day[-1][0] != heading:
                lines_by_day.append((heading, []))
            lines_by_day[-1][1].append(replace(first, more=tuple(rest)))
        days = [localdate(lines[0].event.at) for _day, lines in lines_by_day]
        later = [below > day for day, below in pairwise(days)]
        return [(day, late, lines) for (day, lines), late in zip(lines_by_day, [*later, False], strict=False)]

    def sentence(self, event: AuditEvent) -> Sentence:
        action, name = sentence_of(event, what=_GAP), self._reader.entry_name(event)
        if name and event.verb.startswith(AT_AN_ENTRY):
            action = _("%(action)s at %(entry)s") % {"action": action, "entry": name}
        before, _gap, after = action.partition(_GAP)
        return Sentence(
            event=event,
            before=before.strip(),
            what=what_of(event),
            url=self._url(event, has_entry=bool(name)),
            after=after.strip(),
            note=event.reason.strip().split("\n", 1)[0][:200],
            via=str(VIAS.get(event.via, event.via)),
            outcome="" if event.outcome == "done" else str(OUTCOMES.get(event.outcome, event.outcome)),
            undo_url=self._undo_url(event),
        )

    def _undo_url(self, event: AuditEvent) -> str:
        revision = revision_of(event)
        if revision < 2 or not self._may_undo(event.policy_slug):
            return ""
        return _address("undo-revision", policy=event.policy_slug, revision=revision)

    def _url(self, event: AuditEvent, *, has_entry: bool) -> str:
        if revision := revision_of(event):
            return _address("diff", policy=event.policy_slug, query=f"?to={revision}")
        if match := _CHANGE_SET.fullmatch(event.subject):
            return _address("change", change_set=int(match[1]))
        if has_entry and event.entry_uid:
            return _address("entry-find", policy=event.policy_slug, uid=event.entry_uid)
        if event.verb.startswith(("usage.", "source.")) and event.subject:
            return _address("source", slug=event.subject)
        return ""


def what_of(event: AuditEvent) -> str:
    """Subject of a row as pages call it."""
    if revision := revision_of(event):
        return _("revision %(n)s of %(policy)s") % {"n": revision, "policy": event.policy_slug}
    if match := _CHANGE_SET.fullmatch(event.subject):
        return _("Change set %(n)s") % {"n": match[1]}
    return event.subject or event.policy_slug


def _by_request(events: Sequence[AuditEvent]) -> Iterator[list[AuditEvent]]:
    """Adjacent rows of one request, published or completed actions first."""
    group: list[AuditEvent] = []
    for event in events:
        if group and not (event.request_id and event.request_id == group[-1].request_id):
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _address(name: str, *, query: str = "", **kwargs: str | int | UUID) -> str:
    """URL of a page, "" if the logged values don't fit its route."""
    try:
        return reverse(f"pages:{name}", kwargs=kwargs) + query
    except NoReverseMatch:
        return ""
