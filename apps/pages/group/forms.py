"""The form for members of a group: reads what a lead typed and keeps it as typed until it is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from uuid import UUID

from django.forms import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core.typed_numbers import read_whole
from apps.policies.operations.dated_shares import former_shares, is_boost
from apps.policies.operations.percent import own_shares_for_percent
from apps.policies.requests.group_division import Division, MemberTerms, NewMember, equal_terms
from apps.policies.tree.columns import Node
from apps.web.changes.share_input import read_typed_shares
from apps.web.shell import presentation

BOOST_TIMES = 2
BOOST_DAYS = 14
STEPS = {"less": -1.0, "more": 1.0}  # percentage points of the group, by button
MOST_NEW_MEMBERS = 50
_NOTHING_LEFT = gettext_lazy("Enter less than 100 %.")


@dataclass
class MemberInput:
    """One row of the form. until: last day as typed, "" for none."""

    shares: str
    until: str
    is_open: bool = False
    leaves: bool = False


@dataclass
class GroupInput:
    """The whole form. problems, codes: messages and their codes by field; "" for errors of no field."""

    nodes: Mapping[UUID, Node]
    members: dict[UUID, MemberInput] = field(default_factory=dict)
    names: str = ""
    names_shares: str = "1"
    reason: str = ""
    base_revision: int | None = None
    problems: dict[str, str] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)

    def member(self, uid: UUID) -> MemberInput:
        """Typed values of a member, else the active ones."""
        return self.members.get(uid) or unchanged_input(self.nodes[uid])

    def refuse(self, where: str, message: str, code: str) -> None:
        self.problems[where], self.codes[where] = message, code

    def division(self) -> Division:
        """The requested division. Unreadable values are added to `problems` and left as they are now."""
        self._resolve_percentages()
        terms = {
            uid: member_terms
            for uid, row in self.members.items()
            if (member_terms := self._terms(uid, row)) is not None
        }
        leaves = [uid for uid, row in self.members.items() if row.leaves]
        return Division(terms, joins=self._joins(), leaves=leaves)

    def _resolve_percentages(self) -> None:
        """Replace each percentage by the shares that produce it, given the shares of the other members."""
        typed = {uid: row for uid, row in self.members.items() if row.shares.endswith("%") and not row.leaves}
        percents = {uid: _percent(row.shares) for uid, row in typed.items()}
        stay = {uid: node for uid, node in self.nodes.items() if not self.member(uid).leaves}
        known = {uid: percent for uid, percent in percents.items() if percent is not None}
        others = sum(_number(self.member(uid).shares) for uid in stay if uid not in known)
        whole = others / (1 - sum(known.values()) / 100) if sum(known.values()) < 100 else 0.0
        inherits = next(
            (node.name for uid, node in stay.items() if self.member(uid).shares == presentation.shares(None)), ""
        )
        for uid, row in typed.items():
            if inherits:
                text = _("%(name)s inherits its shares: enter shares, not percent.") % {"name": inherits}
                self.refuse(f"shares-{uid}", text, "percent")
                continue
            if not whole or uid not in known:
                problem = _("Enter a percentage from 0 to 100.") if uid not in known else _NOTHING_LEFT
                self.refuse(f"shares-{uid}", str(problem), "percent")
                continue
            siblings = [
                replace(node, shares=known[each] / 100 * whole if each in known else _number(self.member(each).shares))
                for each, node in stay.items()
                if each != uid
            ]
            member_node = replace(self.nodes[uid], shares=self.nodes[uid].shares or 0.0)
            row.shares = presentation.shares(own_shares_for_percent(member_node, siblings, known[uid]))

    def _terms(self, uid: UUID, row: MemberInput) -> MemberTerms | None:
        node = self.nodes[uid]
        typed = unchanged_input(node)
        if (row.shares, row.until) == (typed.shares, typed.until):
            return None
        if f"shares-{uid}" in self.problems:  # of a percentage
            return None
        try:
            shares = node.shares if row.shares == typed.shares else _shares(row.shares)
        except ValidationError as error:
            self.refuse(f"shares-{uid}", error.messages[0], str(error.code))
            return None
        try:
            until = date.fromisoformat(row.until) if row.until else None
        except ValueError:
            self.refuse(f"until-{uid}", _("Enter a date, such as 2027-03-31."), "no_day")
            return None
        return MemberTerms(shares, until)

    def _joins(self) -> list[NewMember]:
        names = [name.strip() for name in self.names.split(",") if name.strip()]
        if len(names) > MOST_NEW_MEMBERS:
            self.refuse("names", _("At most %(n)s people at once.") % {"n": MOST_NEW_MEMBERS}, "too_many")
            return []
        try:
            shares = _shares(self.names_shares) if names else 1.0
        except ValidationError as error:
            self.refuse("names_shares", error.messages[0], str(error.code))
            return []
        return [NewMember(name, 1.0 if shares is None else shares) for name in names]


def unchanged_input(node: Node) -> MemberInput:
    """Row of a member before any input."""
    boosted = node.dates if is_boost(node.dates) else None
    until = boosted.ends_on.isoformat() if boosted is not None and boosted.ends_on else ""
    return MemberInput(presentation.shares(node.shares), until)


def read_group(data: QueryDict, nodes: Mapping[UUID, Node]) -> GroupInput:
    """Read the form; rows of members that no longer exist are skipped."""
    group_input = GroupInput(
        nodes,
        names=data.get("names", "")[:8_192],
        names_shares=data.get("names_shares", "1")[:40],
        reason=data.get("reason", "")[:4_000],
        base_revision=read_whole(data.get("base_revision", ""), 9),
    )
    for key in data:
        uid = _uid(key.removeprefix("shares-")) if key.startswith("shares-") else None
        if uid is not None and uid in nodes:
            group_input.members[uid] = MemberInput(
                shares=data.get(key, "").strip()[:40],
                until=data.get(f"until-{uid}", "").strip()[:10],
                is_open=f"open-{uid}" in data,
                leaves=f"leave-{uid}" in data,
            )
    return group_input


def apply_step(typed: GroupInput, step: str, today: date) -> None:
    """Apply a button to the typed values: open, close, end a boost, change by one point, equalise. Stores nothing."""
    name, _colon, text = step.partition(":")
    if name == "equalise":
        for each, terms in equal_terms(list(typed.nodes.values())).items():
            row = typed.members.setdefault(each, unchanged_input(typed.nodes[each]))
            row.shares, row.until, row.is_open = presentation.shares(terms.shares), "", False
        return
    uid = _uid(text)
    if uid is None or uid not in typed.nodes:
        return
    node, row = typed.nodes[uid], typed.member(uid)
    typed.members[uid] = row
    if name == "open":
        row.is_open = True
        if row == MemberInput(unchanged_input(node).shares, "", is_open=True) and may_boost(node):
            row.shares = presentation.shares(BOOST_TIMES * (node.shares or 0.0))
            row.until = (today + timedelta(days=BOOST_DAYS)).isoformat()
    elif name == "close":
        typed.members[uid] = unchanged_input(node)
    elif name == "end" and is_boost(node.dates):
        row.shares, row.until = presentation.shares(former_shares(node)), ""
    elif name in STEPS and not row.leaves:
        row.shares = f"{min(max(round(_percent_of(typed, uid) + STEPS[name], 2), 0.0), 99.0):g} %"


def _percent_of(typed: GroupInput, uid: UUID) -> float:
    """A member's percentage of the group, by the typed shares of all members."""
    own = typed.member(uid).shares
    if own.endswith("%"):
        return _percent(own) or 0.0
    rows = [typed.member(each) for each in typed.nodes]
    whole = sum(_number(row.shares) for row in rows if not row.leaves)
    return 100 * _number(own) / whole if whole else 0.0


def may_boost(node: Node) -> bool:
    """Whether the member has shares to return to and no dates other than a boost's."""
    return bool(node.shares) and (node.dates is None or is_boost(node.dates))


def _shares(text: str) -> float | None:
    shares = read_typed_shares(text)
    if isinstance(shares, dict):
        raise ValidationError(_("Enter shares; percent works once the entry exists."), code="percent")
    return None if isinstance(shares, str) else shares


def _percent(text: str) -> float | None:
    try:
        amount = read_typed_shares(text)
    except ValidationError:
        return None
    return amount["percent"] if isinstance(amount, dict) else None


def _number(text: str) -> float:
    """The number as typed; 0 if it can't be read, which is reported at its field, or if shares are inherited."""
    try:
        return _shares(text) or 0.0
    except ValidationError:
        return 0.0


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
