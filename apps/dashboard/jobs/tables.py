"""Jobs taken apart, as a page shows them: terms in columns, sums, variants side by side, and who moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

MOST_ROWS = 200  # of a page; all jobs count, these are shown
Variants = list[tuple[str, dict[str, float], dict[str, int]]]  # label, priorities and places of each reading


@dataclass(frozen=True, slots=True)
class Column:
    """One term: its label, and the weight it is multiplied by, where all jobs share one."""

    name: str
    label: str
    weight: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A weighted term, and the normalised value it comes from."""

    label: str
    amount: str
    value: str = ""
    is_wide: bool = False  # needs a line of its own in a narrow window


@dataclass(frozen=True, slots=True)
class Other:
    """The job under another variant: its priority, its place, and by how many places it moved up."""

    label: str
    total: str
    place: int | None
    moved: int = 0

    @property
    def moved_text(self) -> str:
        if not self.moved or self.place is None:
            return ""
        return _("%(n)d up") % {"n": self.moved} if self.moved > 0 else _("%(n)d down") % {"n": -self.moved}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job: what it is, its terms, their sum, and every line of how they come about."""

    job: str
    user: str
    state: str
    cells: Sequence[Cell]
    total: str
    place: int | None
    lines: Sequence[str]
    doubts: Sequence[str] = ()
    others: Sequence[Other] = ()


@dataclass(frozen=True, slots=True)
class TicketSum:
    """How many jobs a user has running and waiting, their tickets, and the place of the first that waits."""

    label: str
    n_running: int
    of_running: str
    n_waiting: int
    of_waiting: str
    first_place: int | None
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A fair-share group: its share, its benefit before, booked and after, its part of all, and what it is owed."""

    group: str
    share: str
    before: str
    booked: str
    after: str
    fraction: str
    owed: str


class Note(NamedTuple):
    """What is to be said of a whole table, with a key that stays when its words change."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class JobTable:
    """Everything the result shows, in words and in rows; `sum_label` is what the sum of the terms is called."""

    title: str
    formula: str
    reference: str
    verdict: str
    columns: Sequence[Column]
    rows: Sequence[JobRow]
    sum_label: str
    n_jobs: int
    variants: Sequence[str] = ()
    notes: Sequence[Note] = field(default_factory=tuple)
    has_places: bool = True
    sums: Sequence[TicketSum] = ()
    ledger: Sequence[LedgerRow] = ()
    ledger_unit: str = ""

    @property
    def n_hidden(self) -> int:
        return self.n_jobs - len(self.rows)

    @property
    def n_columns(self) -> int:
        return 2 + len(self.columns) + 1 + len(self.variants) + self.has_places


def places_of(order: Sequence[str]) -> dict[str, int]:
    """Place of each job in line, from 1."""
    return {job: place for place, job in enumerate(order, start=1)}


def waiting_verdict(places: Mapping[str, int]) -> str:
    """How many jobs wait, and which is next."""
    if not places:
        return _("No job is waiting.")
    first = next(iter(places))
    n = len(places)
    return ngettext("One job waits: %(first)s.", "%(n)s jobs wait; %(first)s is next.", n) % {"n": n, "first": first}


def short(value: object) -> str:
    """A weight as people write it."""
    return f"{value:.10g}" if isinstance(value, int | float) else str(value)


def others_of(
    job: str, base: Mapping[str, int], variants: Sequence[tuple[str, Mapping[str, float], Mapping[str, int]]]
) -> list[Other]:
    """The job under each variant (label, priorities, places) beside its place under the base."""
    return [
        Other(
            label,
            f"{totals.get(job, 0.0):.5f}",
            places.get(job),
            base[job] - places[job] if job in base and job in places else 0,
        )
        for label, totals, places in variants
    ]


def moved_notes(base: Mapping[str, int], variants: Sequence[tuple[str, object, Mapping[str, int]]]) -> list[Note]:
    """What the variants change in the order, in words."""
    if not variants:
        return []
    told = []
    for label, _totals, places in variants:
        moved = sum(place != places.get(job) for job, place in base.items())
        told.append(_("%(label)s: %(n)s") % {"label": label, "n": moved} if moved else _("%s: none") % label)
    return [Note("moved", _("Changed positions: %(told)s.") % {"told": "; ".join(told)})]
