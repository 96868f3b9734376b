"""Orders of shares as rows, and in one sentence how far the scheduler's shares are the policy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.schedulers.following import AssociationChanges
from apps.contrib.schedulers.models import Scheduler, ShareOrder
from apps.contrib.schedulers.share_difference import ShareDifference
from apps.contrib.schedulers.share_reports import SET
from apps.policies.tree.difference import CODES
from apps.priorities.sentences import numbers

OUTCOMES = {
    "missing": gettext_lazy("not there"),
    "changed_meanwhile": gettext_lazy("changed meanwhile"),
    "denied": gettext_lazy("denied: the agent needs operator rights"),
    "timeout": gettext_lazy("took too long"),
    "refused": gettext_lazy("refused"),
    "unreadable": gettext_lazy("can’t be read"),
}
ORDERS = {
    "open": ("", gettext_lazy("waits for the agent")),
    "done": ("ok", gettext_lazy("done")),
    "failed": ("warn", gettext_lazy("in part")),
    "cancelled": ("", gettext_lazy("Cancelled")),
}

FOLLOWED_LABELS = {
    "added": gettext_lazy("New"),
    "moved": gettext_lazy("Moved"),
    "renamed": gettext_lazy("Renamed"),
    "archived": gettext_lazy("Gone"),
}
MOST_FOLLOWED_PATHS = 10


@dataclass(frozen=True)
class ShareOrderLine:
    """One order of shares: number of shares that were set, and the problems of the others."""

    order: ShareOrder
    badge: str
    state: str
    n_set: int
    problems: Sequence[str]


def share_order_line(order: ShareOrder) -> ShareOrderLine:
    badge, words = ORDERS[order.state]
    problems = [_line_problem(line) for line in order.lines if line["outcome"] in OUTCOMES]
    n_set = sum(line["outcome"] in SET for line in order.lines)
    return ShareOrderLine(order, badge, str(words), n_set, problems[:20])


def _line_problem(line: Mapping[str, str]) -> str:
    who = f"{line['group']} {line['user']}".rstrip()
    words = {"who": who, "problem": OUTCOMES[line["outcome"]], "detail": line["detail"]}
    return (_("%(who)s: %(problem)s. %(detail)s") if line["detail"] else _("%(who)s: %(problem)s")) % words


@dataclass(frozen=True)
class FollowedLine:
    """What following would do with some entries. code: of the change."""

    code: str
    label: str
    n: int
    paths: Sequence[str]


def followed_lines(changes: AssociationChanges | None) -> list[FollowedLine]:
    if changes is None:
        return []
    return [
        FollowedLine(CODES[what], str(FOLLOWED_LABELS[CODES[what]]), n, changes.paths[what][:MOST_FOLLOWED_PATHS])
        for what, n in changes.counts.items()
        if n
    ]


def shares_headline(scheduler: Scheduler, difference: ShareDifference | None) -> str:
    if difference is None:
        return _("Shares of %(name)s") % {"name": scheduler.name}
    if not difference.changes:
        return _("%(name)s has the policy’s shares") % {"name": scheduler.name}
    n = len(difference.changes)
    text = ngettext("%(n)s share of %(name)s differs", "%(n)s shares of %(name)s differ", n)
    return text % {"n": numbers.count(n), "name": scheduler.name}
