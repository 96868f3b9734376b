"""Texts and rows of the set-up: facts about the scheduler's tree, and its comparison with 90 days of usage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.account_keys import AccountKey
from apps.contrib.onboarding.tree_vs_usage import DAYS, TopEntry, TreeVsUsage, Unplaced
from apps.mapping.suggestions import Suggestion
from apps.pages.mapping.presenters import WHY
from apps.policies.tree.columns import TreeColumns
from apps.priorities.sentences import numbers
from apps.web.shell import presentation
from apps.web.shell.lines import bar_label, tolerance_of
from apps.web.shell.presentation import Balance
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, State, Tolerance

SHOWN = 100
_WIDTH = 180


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact about the tree, or a warning. `counts`: the numbers in its text."""

    key: str
    counts: Sequence[int]
    text: str
    detail: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Headline: `n_reached` of `of` groups (or entries) reached their targets; both 0 without usage."""

    key: str
    text: str
    n_reached: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True)
class GroupLine:
    name: str
    path: str
    is_group: bool
    target: str
    actual: str
    balance: Balance
    bar: Bullet | None
    label: str
    n_users: int


@dataclass(frozen=True, slots=True)
class UnplacedLine:
    """An unmapped account. `value`: path of the entry that is suggested for it."""

    names: AccountKey
    title: str
    detail: str
    amount: str
    value: str
    why: str
    why_key: str


def tree_text(tree: TreeColumns) -> str:
    """Size of the tree, such as “94 users in 6 groups”."""
    n_leaves, n_groups = _counts(tree)
    users = ngettext("%(n)s user", "%(n)s users", n_leaves) % {"n": numbers.count(n_leaves)}
    groups = ngettext("%(n)s group", "%(n)s groups", n_groups) % {"n": numbers.count(n_groups)}
    # Translators: the size of a tree, such as “94 users in 6 groups”
    return _("%(users)s in %(groups)s") % {"users": users, "groups": groups}


def tree_facts(tree: TreeColumns, ignored: Sequence[str]) -> list[Fact]:
    """Facts about the tree, with warnings about what is unusual or not used."""
    depth = int(tree.level.max())
    words = ngettext("%(n)s level below the root", "%(n)s levels below the root", depth) % {"n": depth}
    facts = [Fact("tree", (*_counts(tree), depth), tree_text(tree), words)]
    n_inherit = int(tree.inherit[1:].sum())
    if n_inherit:
        text = ngettext(
            "%(n)s entry inherits its parent’s shares", "%(n)s entries inherit their parents’ shares", n_inherit
        ) % {"n": numbers.count(n_inherit)}
        facts.append(
            Fact(
                "inherit",
                (n_inherit,),
                text,
                _("Fairshare=parent, here called inherit: first %(names)s")
                % {"names": _first(tree, np.flatnonzero(tree.inherit).tolist())},
            )
        )
    empty = np.flatnonzero(tree.is_group & (tree.n_children == 0)).tolist()
    if empty:
        text = ngettext("%(n)s group without users", "%(n)s groups without users", len(empty))
        text %= {"n": numbers.count(len(empty))}
        facts.append(Fact("empty", (len(empty),), text, _first(tree, empty), is_warning=True))
    nothing = np.flatnonzero(~tree.inherit & (tree.shares == 0)).tolist()
    if nothing:
        text = ngettext("%(n)s entry without shares", "%(n)s entries without shares", len(nothing))
        text %= {"n": numbers.count(len(nothing))}
        facts.append(Fact("no_shares", (len(nothing),), text, _first(tree, nothing), is_warning=True))
    if ignored:
        text = _("Read, but not used: %(what)s") % {"what": ", ".join(ignored)}
        detail = _("Policies contain shares. Limits and QOS stay in the scheduler.")
        facts.append(Fact("ignored", (len(ignored),), text, detail, is_warning=True))
    return facts


def config_facts(config: Mapping[str, Any] | None) -> list[Fact]:
    """Each setting in Slurm's configuration, and the setting that it became here."""
    return [
        Fact("slurm_config", (), f"{line['name']}={line['value']}", line["meaning"], is_warning=not line["is_carried"])
        for line in (config or {}).get("lines", ())
    ]


def verdict(against: TreeVsUsage) -> Verdict:
    """Headline such as “In 90 days, 3 of your 6 groups reached their targets”."""
    groups = [row for row in against.ledger.top if _is_group(against, row)] or list(against.ledger.top)
    if not against.used_s:
        return Verdict("no_usage", _("No usage in these 90 days: nothing to compare"))
    if not against.ledger.used_s:
        return Verdict("none_placed", _("None of this usage maps to your tree"))
    n_reached = sum(row.state in ("on", "idle") for row in groups)
    n_days = against.ledger.n_days
    words = {
        "days": ngettext("On %(n)s day", "In %(n)s days", n_days) % {"n": n_days},
        "kept": numbers.count(n_reached),
        "all": numbers.count(len(groups)),
    }
    key = "kept" if n_reached else "none_kept"
    return Verdict(key, _reached_text(against, groups) % words, n_reached, len(groups))


def _reached_text(against: TreeVsUsage, groups: Sequence[TopEntry]) -> str:
    has_groups = any(_is_group(against, row) for row in groups)
    if has_groups:
        return ngettext(
            "%(days)s, %(kept)s of your %(all)s group reached its target",
            "%(days)s, %(kept)s of your %(all)s groups reached their targets",
            len(groups),
        )
    return _("%(days)s, %(kept)s of your %(all)s top-level entries reached their targets")


def extremes(against: TreeVsUsage) -> list[tuple[str, str]]:
    """Name and sentence of the entries furthest above and below their targets, and a remark without a name."""
    remarks: list[tuple[str, str]] = []
    over = max((r for r in against.ledger.top if r.state == "over"), key=_distance, default=None)
    under = max((r for r in against.ledger.top if r.state == "under"), key=_distance, default=None)
    if over is not None:
        remarks.append((_name(against, over), _("used %(points)s points more than its share.") % _points(over)))
    if under is not None:
        remarks.append((_name(against, under), _("used %(points)s points less than its share.") % _points(under)))
    if against.ledger.used_s:
        remarks.append(("", _("This is how your scheduler worked with its current shares.")))
    return remarks


def span_text(against: TreeVsUsage) -> str:
    """The compared days, and the first day with usage if that is later."""
    span = against.span
    words = {"first": _day(span.first_on), "last": _day(span.last_on), "n": DAYS}
    text = ngettext("%(n)s day, %(first)s to %(last)s", "%(n)s days, %(first)s to %(last)s", DAYS) % words
    if span.used_from_on is not None and span.n_used_days < DAYS:
        text = _("%(days)s; usage starts on %(begin)s") % {"days": text, "begin": _day(span.used_from_on)}
    return text


def group_lines(against: TreeVsUsage) -> tuple[list[GroupLine], str]:
    """Rows of the top-level entries, and the scale of their bars in words."""
    tolerance = tolerance_of(against.settings)
    shown = list(against.ledger.top[:SHOWN])
    own = bars.differ_tenfold(row.target for row in shown)
    scale = bars.share_scale([(row.actual, row.target) for row in shown], tolerance)
    words = (
        _("Each bar is drawn against its own target: tick 100 %, end 160 %.")
        if own
        else _("%(first)s to %(last)s") % {"first": 0, "last": numbers.percent(scale, 0)}
    )
    off_target = [(row.actual, row.target) for row in shown if _balance(against, row, tolerance).is_off_target]
    decimals = numbers.decimals_of_column(off_target)
    return [
        _group_line(against, row, tolerance, bars.against_target(row.target) if own else scale, decimals)
        for row in shown
    ], words


def unplaced_lines(against: TreeVsUsage) -> list[UnplacedLine]:
    return [_unplaced_line(against.tree, unplaced) for unplaced in against.unplaced]


def account_text(names: AccountKey) -> tuple[str, str]:
    """Name of an account, and details that distinguish it from others."""
    title = names.user_name or names.dn or names.group_name or _("unknown")
    details = (
        [_("group %(group)s") % {"group": names.group_name}] if names.group_name and title != names.group_name else []
    )
    details += [_("project %(name)s") % {"name": names.project}] if names.project else []
    details += [names.fqan] if names.fqan else []
    return title, ", ".join(details)


def _actual(against: TreeVsUsage, row: TopEntry) -> float | None:
    return row.actual if against.ledger.used_s else None


def _balance(against: TreeVsUsage, row: TopEntry, tolerance: Tolerance, decimals: int | None = None) -> Balance:
    actual, has_usage = _actual(against, row), row.used_s > 0
    return presentation.balance(actual, row.target, has_usage=has_usage, tolerance=tolerance, decimals=decimals)


def _group_line(against: TreeVsUsage, row: TopEntry, tolerance: Tolerance, maximum: float, decimals: int) -> GroupLine:
    actual, balance = _actual(against, row), _balance(against, row, tolerance, decimals)
    bar = bars.draw(
        actual=actual, target=row.target, maximum=maximum, state=balance.state, width=_WIDTH, tolerance=tolerance
    )
    tree, shares = against.tree, numbers.compare_shares(actual, row.target, decimals=decimals)
    return GroupLine(
        name=tree.name[row.entry],
        path=tree.path(row.entry),
        is_group=_is_group(against, row),
        target=shares.target,
        actual=shares.actual,
        # The balance, with “not used” for idle: a log of finished jobs does not show whether there was demand.
        balance=Balance(State.IDLE, "", _("not used")) if balance.state is State.IDLE else balance,
        bar=bar,
        label=bar_label(actual, row.target, tolerance, decimals=decimals),
        n_users=against.n_users.get(row.entry, 0),
    )


def _unplaced_line(tree: TreeColumns, unplaced: Unplaced) -> UnplacedLine:
    title, detail = account_text(unplaced.names)
    best: Suggestion | None = next(iter(unplaced.suggestions), None)
    return UnplacedLine(
        names=unplaced.names,
        title=title,
        detail=detail,
        amount=presentation.hours(unplaced.amount_s),
        value="" if best is None else tree.path(best.entry),
        why="" if best is None else reason_text(best),
        why_key="" if best is None else best.why,
    )


def reason_text(suggestion: Suggestion) -> str:
    if suggestion.why == "neighbours":
        words = _("%(n)s of %(of)d others of its group count there")
        return words % {"n": suggestion.n, "of": suggestion.n_of}
    return str(WHY[suggestion.why])


def _name(against: TreeVsUsage, row: TopEntry) -> str:
    return against.tree.name[row.entry]


def _points(row: TopEntry) -> dict[str, str]:
    return {"points": numbers.points(row.actual - row.target)}


def _distance(row: TopEntry) -> float:
    return abs(row.actual - row.target)


def _is_group(against: TreeVsUsage, row: TopEntry) -> bool:
    return bool(against.tree.is_group[row.entry] or against.tree.n_children[row.entry])


def _counts(tree: TreeColumns) -> tuple[int, int]:
    """Numbers of users and groups."""
    groups = tree.is_group | (tree.n_children > 0)
    return int((~groups[1:] & ~tree.is_reserve[1:]).sum()), int(groups[1:].sum())


def _first(tree: TreeColumns, entries: Sequence[int]) -> str:
    return ", ".join(tree.path(i) for i in entries[:3]) + (", …" if len(entries) > 3 else "")


def _day(day: date) -> str:
    return formats.date_format(day, "j M Y")
