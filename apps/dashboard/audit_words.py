"""Rows of the audit log as sentences: who did what to what, and what that leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.accounts.models import AuditEvent
from apps.dashboard.history_pages import day_heading

# %(what)s is what it was done to, with a link where there is something to open.
SENTENCES = {
    "policy.published": gettext_lazy("published %(what)s"),
    "policy.automatic": gettext_lazy("changed %(what)s by rule"),
    "changeset.drafted": gettext_lazy("drafted %(what)s"),
    "changeset.edited": gettext_lazy("edited %(what)s"),
    "changeset.proposed": gettext_lazy("asked for review of %(what)s"),
    "changeset.approved": gettext_lazy("approved %(what)s"),
    "changeset.sent_back": gettext_lazy("asked for changes of %(what)s"),
    "changeset.scheduled": gettext_lazy("scheduled %(what)s"),
    "changeset.held": gettext_lazy("could not put %(what)s in force when it was due"),
    "changeset.rebased": gettext_lazy("set %(what)s upon the newest revision"),
    "changeset.withdrawn": gettext_lazy("withdrew %(what)s"),
    "changeset.commented": gettext_lazy("commented on %(what)s"),
    "grant.given": gettext_lazy("gave a role: %(what)s"),
    "grant.changed": gettext_lazy("changed a role: %(what)s"),
    "grant.extended": gettext_lazy("extended a role: %(what)s"),
    "grant.ended": gettext_lazy("ended a role: %(what)s"),
    "grant.adopted": gettext_lazy("took a role over: %(what)s"),
    "allocation.given": gettext_lazy("promised core-hours: %(what)s"),
    "allocation.changed": gettext_lazy("changed a promise of core-hours: %(what)s"),
    "allocation.withdrawn": gettext_lazy("withdrew a promise of core-hours: %(what)s"),
    "capacity.stated": gettext_lazy("stated a capacity: %(what)s"),
    "capacity.changed": gettext_lazy("changed a capacity: %(what)s"),
    "capacity.removed": gettext_lazy("removed a capacity: %(what)s"),
    "mapping.changed": gettext_lazy("changed which account counts where, in %(what)s"),
    "account.attached": gettext_lazy("attached an account: %(what)s"),
    "account.detached": gettext_lazy("detached an account: %(what)s"),
    "account.claimed": gettext_lazy("claimed the account %(what)s"),
    "account.claim_taken_back": gettext_lazy("took the claim of %(what)s back"),
    "account.claim_refused": gettext_lazy("refused the claim of %(what)s"),
    "account.owned": gettext_lazy("said whose an account is: %(what)s"),
    "token.made": gettext_lazy("made the token %(what)s"),
    "token.rotated": gettext_lazy("rotated the token %(what)s"),
    "token.revoked": gettext_lazy("revoked the token %(what)s"),
    "user.made": gettext_lazy("added the person %(what)s"),
    "user.linked": gettext_lazy("signed in anew as %(what)s"),
    "user.groups": gettext_lazy("brought other groups along: %(what)s"),
    "source.made": gettext_lazy("made the usage source %(what)s"),
    "usage.pushed": gettext_lazy("sent usage of %(what)s"),
    "usage.import_asked": gettext_lazy("handed in usage of %(what)s"),
    "usage.imported": gettext_lazy("imported usage of %(what)s"),
    "recompute.requested": gettext_lazy("asked for a recompute of %(what)s"),
}
# The first words of verbs, as the filter offers them.
TOPICS = {
    "policy": gettext_lazy("published"),
    "changeset": gettext_lazy("change sets"),
    "grant": gettext_lazy("roles"),
    "account": gettext_lazy("accounts"),
    "mapping": gettext_lazy("mapping rules"),
    "allocation": gettext_lazy("allocations"),
    "capacity": gettext_lazy("capacities"),
    "usage": gettext_lazy("usage"),
    "source": gettext_lazy("usage sources"),
    "token": gettext_lazy("tokens"),
    "user": gettext_lazy("people"),
    "recompute": gettext_lazy("recomputes"),
}
VIAS = {
    "page": gettext_lazy("page"), "api": gettext_lazy("API"), "command": gettext_lazy("command"),
    "worker": gettext_lazy("worker"), "admin": gettext_lazy("administration"),
}  # fmt: skip
OUTCOMES = {
    "done": gettext_lazy("done"), "refused": gettext_lazy("refused"), "failed": gettext_lazy("failed"),
}  # fmt: skip
_CHANGE_SET = re.compile(r"change set (\d{1,9})")
_UNKNOWN = re.compile(r"[._]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One row: what stands before and after what it was done to; `more` are rows of the same request."""

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


def days(events: Sequence[AuditEvent]) -> list[tuple[str, list[Sentence]]]:
    """Under headings by day, what one request did in one place."""
    found: list[tuple[str, list[Sentence]]] = []
    for group in _by_request(events):
        first, *rest = (sentence(event) for event in group)
        line = first if not rest else _with_more(first, rest)
        heading = day_heading(line.event.at)
        if not found or found[-1][0] != heading:
            found.append((heading, []))
        found[-1][1].append(line)
    return found


def sentence(event: AuditEvent) -> Sentence:
    told = str(SENTENCES.get(event.verb) or _UNKNOWN.sub(" ", event.verb) + ": %(what)s")
    if event.outcome == AuditEvent.Outcome.REFUSED:
        told = _("was refused: %(what)s") if event.verb == "policy.published" else _("was refused: ") + told
    elif event.outcome == AuditEvent.Outcome.FAILED:
        told = _("failed: ") + told
    before, _what, after = told.partition("%(what)s")
    revision = _revision(event)
    return Sentence(
        event=event, before=before.strip(), what=what_of(event), url=_url(event), after=after.strip(),
        note=event.reason.strip().split("\n", 1)[0][:200], via=_via(event),
        outcome="" if event.outcome == "done" else str(OUTCOMES.get(event.outcome, event.outcome)),
        undo_url=_address("undo-revision", policy=event.policy_slug, revision=revision) if revision > 1 else "",
    )  # fmt: skip


def what_of(event: AuditEvent) -> str:
    """Its subject in the words of the pages."""
    if revision := _revision(event):
        return _("revision %(n)s of %(policy)s") % {"n": revision, "policy": event.policy_slug}
    if match := _CHANGE_SET.fullmatch(event.subject):
        return _("change set %(n)s") % {"n": match[1]}
    return event.subject or event.policy_slug


def facts(event: AuditEvent, *, shows_all: bool, is_own: bool) -> list[tuple[str, str]]:
    """What else is known of a row: addresses for administrators, requests and tokens also for whoever made them."""
    found = [(_("Row"), f"{event.id:,}"), (_("Verb"), event.verb), (_("Outcome"), str(OUTCOMES[event.outcome]))]
    if shows_all or is_own:
        found += [(_("Request"), event.request_id), (_("Token"), event.token_prefix)]
    if shows_all:
        found.append((_("Address"), event.address or ""))
        found.append((_("Hash"), bytes(event.hash).hex()[:16]))
    return [(name, value) for name, value in found if value]


def details(event: AuditEvent) -> list[tuple[str, str]]:
    """What was written down beside it, but for the operations, which are told as what they changed."""
    given: dict[str, Any] = event.details if isinstance(event.details, dict) else {}
    return [(key.replace("_", " "), str(value)[:300]) for key, value in given.items() if key != "operations"]


def count_words(n: int, n_refused: int, *, most: int) -> str:
    """41 events in 7 days, one refused."""
    shown = f"{n:,}" if n < most else _("Over %(n)s") % {"n": f"{most:,}"}
    told = ngettext("%(n)s event in 7 days", "%(n)s events in 7 days", n) % {"n": shown}
    if not n_refused:
        return told + _(", none refused")
    return told + ngettext(", %(n)s refused", ", %(n)s refused", n_refused) % {"n": n_refused}


def revision_of(event: AuditEvent) -> int:
    """The revision that it put in force; 0 where it is about something else."""
    return _revision(event)


def since_words(at: datetime) -> str:
    return day_heading(at)


def _by_request(events: Sequence[AuditEvent]) -> Iterator[list[AuditEvent]]:
    """Neighbours of one request together, what was published or done last first, as they come."""
    group: list[AuditEvent] = []
    for event in events:
        if group and not (event.request_id and event.request_id == group[-1].request_id):
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _with_more(first: Sentence, rest: Sequence[Sentence]) -> Sentence:
    return Sentence(
        first.event, first.before, first.what, first.url, first.after, first.note, first.via, first.outcome,
        first.undo_url, tuple(rest),
    )  # fmt: skip


def _via(event: AuditEvent) -> str:
    return str(VIAS.get(event.via, event.via))


def _revision(event: AuditEvent) -> int:
    given = event.details.get("revision") if isinstance(event.details, dict) else None
    return given if isinstance(given, int) and event.verb == "policy.published" else 0


def _url(event: AuditEvent) -> str:
    if revision := _revision(event):
        return _address("diff", policy=event.policy_slug, query=f"?to={revision}")
    if match := _CHANGE_SET.fullmatch(event.subject):
        return _address("change", change_set=int(match[1]))
    if event.entry_uid and event.policy_slug:
        return _address("entry-find", policy=event.policy_slug, uid=event.entry_uid)
    if event.verb.startswith(("usage.", "source.")) and event.subject:
        return _address("source", slug=event.subject)
    return ""


def _address(name: str, *, query: str = "", **kwargs: str | int | UUID) -> str:
    """Empty where what is written in the log makes no address."""
    try:
        return reverse(f"dashboard:{name}", kwargs=kwargs) + query
    except NoReverseMatch:
        return ""
