"""Statements as pages and tables show them: core-hours, with the words for what may not be told or isn't there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.dashboard.shell import lines, presentation
from apps.notices.statements.arithmetic import AMOUNTS, Month
from apps.notices.statements.selectors import StatementLine, StatementPage

HOUR_S = 3600.0
# Each amount with its formula, one a line: the page and the documents say the same.
FORMULAS = (
    ("entitled", gettext_lazy("Entitled"), gettext_lazy("Its target, each day, of the usage of all its competitors")),
    ("used", gettext_lazy("Used"), gettext_lazy("Its own usage")),
    ("lent", gettext_lazy("Lent"), gettext_lazy("Unused on days without waiting jobs")),
    ("missed", gettext_lazy("Missed"), gettext_lazy("Unused on days with waiting jobs")),
    ("unclear", gettext_lazy("Unclear"), gettext_lazy("Unused on days without data on waiting jobs")),
    ("borrowed", gettext_lazy("Borrowed"), gettext_lazy("Used beyond its entitlement, by day")),
)
HEADER = (
    "month",
    "path",
    *(f"{name}_core_h" for name in AMOUNTS),
    "adjusted_core_h",
    "target_first",
    "target_last",
    "days",
    "days_missing",
    "days_unclear",
    "days_before_first_revision",
    "closed",
    "suppressed",
    "rounded",
)


@dataclass(frozen=True, slots=True)
class DrawnStatement:
    month: str
    month_words: str
    name: str
    url: str
    amounts: Sequence[tuple[str, str]]  # label, core-hours
    adjusted: str
    note: str
    is_chosen: bool
    is_closed: bool
    has_figures: bool
    is_suppressed: bool


def draw(page: StatementPage, line: StatementLine, *, is_part: bool = False) -> DrawnStatement:
    amounts = [
        (str(label), presentation.core_hours(getattr(line.figures, name)) if line.figures else presentation.UNKNOWN)
        for name, label, _formula in FORMULAS
    ]
    return DrawnStatement(
        month=line.month.text,
        month_words=month_words(line.month),
        name=line.name,
        url=page_url(page.policy_slug, line) + f"?month={line.month.text}",
        amounts=amounts,
        adjusted="–" if line.adjusted is None else presentation.signed_hours(line.adjusted),
        note=note(line),
        is_chosen=not is_part and line.month == page.chosen.month,
        is_closed=line.is_closed,
        has_figures=line.figures is not None,
        is_suppressed=line.is_suppressed,
    )


def page_url(policy_slug: str, line: StatementLine) -> str:
    name = lines.name_slug(line.name)
    return reverse("dashboard:statements", kwargs={"policy": policy_slug, "uid": line.uid, "name": name})


def month_words(month: Month) -> str:
    return str(formats.date_format(month.first_on, "F Y"))


def note(line: StatementLine) -> str:
    """What is to be said about the row besides its numbers."""
    if line.is_suppressed:
        return _("not shown: fewer than five active members")
    if line.figures is None:
        return _("no days yet") if line.missing_days else _("nothing to divide")
    told = []
    if line.missing_days:
        told.append(ngettext("%(n)s day missing", "%(n)s days missing", line.missing_days) % {"n": line.missing_days})
    if line.figures.n_before_first:
        n = line.figures.n_before_first
        told.append(
            ngettext("%(n)s day from before the first policy", "%(n)s days from before the first policy", n) % {"n": n}
        )
    if line.corrections:
        told.append(_("corrected since"))
    if line.is_rounded:
        told.append(_("rounded"))
    return ", ".join(told)


def verdict(line: StatementLine) -> str:
    """One sentence for the month."""
    given = {"name": line.name, "month": month_words(line.month)}
    if line.is_suppressed:
        return _("Usage of %(name)s in %(month)s is not shown: fewer than five active members.") % given
    figures = line.figures
    if figures is None:
        return _("No statement for %(name)s in %(month)s.") % given
    if figures.entitled <= 0:
        return _("%(name)s had no entitlement in %(month)s.") % given
    given["part"] = presentation.percent(figures.used / figures.entitled, 0)
    return _("%(name)s used %(part)s of its entitlement in %(month)s.") % given


def corrections(line: StatementLine) -> list[tuple[str, str]]:
    labels = {name: str(label) for name, label, _formula in FORMULAS}
    return [(labels[name], presentation.signed_hours(amount)) for name, amount in line.corrections.items()]


def table_rows(found: Sequence[StatementLine]) -> Iterator[tuple[Any, ...]]:
    """For CSV: numbers where they may be told, else empty with `suppressed`."""
    for line in found:
        figures = line.figures
        amounts = [None if figures is None else getattr(figures, name) / HOUR_S for name in AMOUNTS]
        target: tuple[Any, ...] = (
            (figures.target_first, figures.target_last, figures.n_days) if figures else (None,) * 3
        )
        doubts: tuple[Any, ...] = (figures.n_unclear, figures.n_before_first) if figures else (None,) * 2
        yield (
            line.month.text,
            line.path,
            *amounts,
            None if line.adjusted is None else line.adjusted / HOUR_S,
            *target,
            line.missing_days,
            *doubts,
            "yes" if line.is_closed else "no",
            "yes" if line.is_suppressed else "no",
            "yes" if line.is_rounded else "no",
        )
