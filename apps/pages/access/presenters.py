"""Roles, grants and the rights of one person at one entry as texts and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.access.role_holders import Access, GrantLine, GrantState, Step, VerbStatus, name_of
from apps.policies.access.scope import EVERYBODY
from apps.policies.models import Grant
from apps.web.shell import lines, presentation

Verb = Grant.Verb
_MOST_COLUMNS = 10
_SEES = (Verb.VIEW_AGGREGATE, Verb.VIEW_MEMBERS)


@dataclass(frozen=True, slots=True)
class RoleChoice:
    role: str
    title: str
    consequence: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class VerbChoice:
    verb: str
    title: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class StepLine:
    """One entry on the path to the asked entry, with the grants that the person has there."""

    name: str
    url: str
    dot: str
    is_here: bool
    badges: Sequence[str]
    sentences: Sequence[str]


@dataclass(frozen=True, slots=True)
class VerbLine:
    verb: str
    title: str
    is_held: bool
    source: str


@dataclass(frozen=True, slots=True)
class Why:
    """Rights of a person at an entry, with the grants that they come from."""

    person: str
    entry: str
    verdict_key: str
    verdict: str
    own_share_key: str
    own_share: str
    steps: Sequence[StepLine]
    verbs: Sequence[VerbLine]


@dataclass(frozen=True, slots=True)
class GrantRow:
    line: GrantLine
    who: str
    is_adapted: bool
    role: str
    verbs: str
    entry: str
    entry_url: str
    given_by: str
    badge: str
    words: str
    may_open: bool
    url: str

    @property
    def is_group(self) -> bool:
        return bool(self.line.grant.people)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Grants by person or group (rows) and entry (columns); `more` is the number of columns left out."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, bool, Sequence[Sequence[GrantRow]]]]
    more: int


def role_choices(chosen: str) -> list[RoleChoice]:
    words = {
        Grant.Role.VIEWER: _("sees shares and group totals, no user names"),
        Grant.Role.LEAD: _("sets the shares of its groups and users and publishes them"),
        Grant.Role.MANAGER: _("also changes the structure below, approves, corrects usage and assigns roles"),
        Grant.Role.ADMIN: _("everything, including mounts"),
    }
    return [RoleChoice(role.value, str(role.label), words[role], role.value == chosen) for role in Grant.Role]


def verb_choices(chosen: Sequence[str]) -> list[VerbChoice]:
    return [VerbChoice(verb.value, str(verb.label), verb.value in chosen) for verb in Verb]


def roles_table() -> list[tuple[str, str, list[bool]]]:
    """One row per right: its name, label, and whether each role includes it, in the order of `Grant.Role`."""
    return [(verb.value, str(verb.label), [verb in VERBS_OF_ROLE[role] for role in Grant.Role]) for verb in Verb]


def draw_why(access: Access, now: datetime, *, is_reader: bool) -> Why:
    """is_reader: the person is who reads the page."""
    name = str(access.person)
    verbs = [
        VerbLine(answer.verb, answer.label, _is_held(answer, access), _source(answer, access))
        for answer in access.verbs
    ]
    steps = [_step_line(access, step, now) for step in access.steps]
    return Why(name, access.entry_name, *_verdict(access, name), *_own_share(access, is_reader=is_reader), steps, verbs)


def _verdict(access: Access, name: str) -> tuple[str, str]:
    """Key and sentence that sums up the person's rights at the entry."""
    words = {"person": name, "entry": access.entry_name}
    held = {answer.verb for answer in access.verbs if answer.is_held}
    if access.is_admin:
        return "admin", _("%(person)s is an administrator of the site and may do everything.") % words
    if not access.may_see and not held:
        return "sees_nothing", _("%(person)s can’t see %(entry)s.") % words
    if access.may_divide and Verb.PUBLISH in held:
        return "divides_and_publishes", _("%(person)s may set shares inside %(entry)s and publish them.") % words
    if access.may_divide:
        return "divides", _("%(person)s may set shares inside %(entry)s; another person publishes them.") % words
    if held - {Verb.VIEW_AGGREGATE, Verb.VIEW_MEMBERS}:
        return "other_rights", _("%(person)s may not set shares inside %(entry)s, but has other rights there.") % words
    return "sees_only", _("%(person)s can see %(entry)s but change nothing.") % words


def _own_share(access: Access, *, is_reader: bool) -> tuple[str, str]:
    """Key and sentence on who may set the entry's own share; empty if it doesn't apply."""
    if len(access.steps) < 2:
        return "", ""
    words = {"person": str(access.person), "entry": access.entry_name, "parent": access.steps[-2].name}
    if access.may_change_own:
        return "own", (
            _("You can also change %(entry)s’s own share.")
            if is_reader
            else _("%(person)s can also change %(entry)s’s own share.")
        ) % words
    if access.may_divide:
        return "of_parent", _("The managers of %(parent)s set %(entry)s’s own share.") % words
    return "", ""


def _is_held(answer: VerbStatus, access: Access) -> bool:
    return answer.is_held or (access.is_open and access.may_see and answer.verb in _SEES)


def _source(answer: VerbStatus, access: Access) -> str:
    if access.is_admin:
        return _("administrator")
    if not answer.grounds and _is_held(answer, access):
        return _("all signed-in users")
    if not answer.grounds:
        role = next((role for role in Grant.Role if answer.verb in VERBS_OF_ROLE[role]), Grant.Role.ADMIN)
        return _("needs %(role)s") % {"role": role.label}
    ground = answer.grounds[-1]
    if ground.grant.people == EVERYBODY:
        return _("all signed-in users")
    if ground.grant.people:
        return _("by the sign-in group %(group)s") % {"group": ground.grant.people}
    return _("from %(name)s") % {"name": ground.entry_name} if ground.is_inherited else _("assigned here")


def _step_line(access: Access, step: Step, now: datetime) -> StepLine:
    url = lines.entry_url(access.policy_slug, step.uid, step.name)
    badges = [_role_of(grant) for grant in step.grants]
    sentences = [_given(grant, now) for grant in step.grants]
    if not step.grants and step is access.steps[-1] and any(each.grants for each in access.steps):
        sentences = [_("inherited from above")]
    return StepLine(
        step.name,
        url,
        "now" if step.grants else "off",
        step is access.steps[-1],
        badges,
        sentences or [_("No role assigned here")],
    )


def _given(grant: Grant, now: datetime) -> str:
    ends = _("until %(day)s") % {"day": presentation.day(grant.expires_at, now)} if grant.expires_at else _("no end")
    words = {
        "by": grant.granted_by or _("system"),
        "on": presentation.day(grant.created_at, now),
        "until": ends,
        "reason": grant.reason,
    }
    if not grant.people:
        return _("assigned by %(by)s on %(on)s, %(until)s: “%(reason)s”") % words
    people = _("all signed-in users") if grant.people == EVERYBODY else grant.people
    text = _("%(people)s: assigned by %(by)s on %(on)s, %(until)s: “%(reason)s”")
    return text % {**words, "people": people}


def _role_of(grant: Grant) -> str:
    role = str(Grant.Role(grant.role).label)
    return _("%(role)s, adapted") % {"role": role} if _is_adapted(grant) else role


def _is_adapted(grant: Grant) -> bool:
    return set(grant.verbs) != set(VERBS_OF_ROLE[grant.role])


def grant_row(policy: str, line: GrantLine, now: datetime) -> GrantRow:
    grant = line.grant
    badge, words = _end_text(line, now)
    archived = line.state is GrantState.DORMANT or not line.entry_name
    return GrantRow(
        line,
        name_of(grant),
        _is_adapted(grant),
        _role_of(grant),
        ", ".join(str(Verb(verb).label) for verb in grant.verbs),
        line.entry_name or _("a removed entry"),
        "" if archived else lines.entry_url(policy, grant.entry_uid, line.entry_name),
        str(grant.granted_by or _("system")),
        badge,
        words,
        line.may_change or line.is_own,
        reverse("pages:grant", kwargs={"policy": policy, "grant_id": grant.pk}),
    )


def _end_text(line: GrantLine, now: datetime) -> tuple[str, str]:
    ends = line.grant.expires_at
    if line.state is GrantState.EXPIRED and ends is not None:
        return "bad", _("expired %(day)s") % {"day": presentation.day(ends, now)}
    if line.state is GrantState.DORMANT:
        return "", _("an archived entry")
    if ends is None:
        return "", _("never")
    return ("warn" if line.state is GrantState.SOON else ""), presentation.day(ends, now)


def matches(row: GrantRow, *, query: str, role: str, soon: bool) -> bool:
    """Whether a grant matches the filter of the list."""
    needle, grant = query.strip().casefold(), row.line.grant
    text = f"{row.who} {grant.user.username if grant.user else ''} {row.line.path}".casefold()
    ending = row.line.state in (GrantState.SOON, GrantState.EXPIRED)
    return needle in text and role in ("", grant.role) and (ending or not soon)


def draw_matrix(rows: Sequence[GrantRow]) -> Matrix:
    """Matrix of the grants; its columns are entries in the order of their paths."""
    active = [row for row in rows if row.line.state is not GrantState.EXPIRED]
    entries = sorted({(row.line.path, row.entry) for row in active})
    shown = entries[:_MOST_COLUMNS]
    people = sorted({(row.is_group, row.who) for row in active})
    rows_by_cell: dict[tuple[str, bool, str], list[GrantRow]] = {}
    for row in rows:
        rows_by_cell.setdefault((row.who, row.is_group, row.line.path), []).append(row)
    table = [
        (who, is_group, [rows_by_cell.get((who, is_group, path), []) for path, _name in shown])
        for is_group, who in people
    ]
    return Matrix(shown, table, len(entries) - len(shown))


def count_text(n_people: int, n_grants: int) -> str:
    """Sentence with the numbers of holders and grants."""
    people = ngettext("%(n)s person or group", "%(n)s people and groups", n_people) % {"n": n_people}
    grants = ngettext("%(n)s role", "%(n)s roles", n_grants) % {"n": n_grants}
    return _("%(people)s with %(grants)s visible to you.") % {"people": people, "grants": grants}
