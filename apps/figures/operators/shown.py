"""What is shown of a figure of operators: its records, what was asked, and the controls that lead to other states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.analytics.operators.figure_query import COUNTS, REGIONS, FigureQuery
from apps.analytics.operators.policy_query import NamedTarget
from apps.analytics.operators.records import FigureTable
from apps.figures.controls import Choice, Control, changed
from apps.figures.operators.tables import region_label
from apps.priorities.sentences.numbers import percent

R = TypeVar("R")
_PAPER_TARGETS = (0.1, 0.5)
_MOST_TARGETS = 6


@dataclass(frozen=True)
class Shown:
    """own: the operator asked about; target: 0..1, the one shown; resolution: in use or asked about.

    address: the page's own query. n_leaves: that are counted.
    """

    found: FigureTable
    query: FigureQuery
    address: QueryDict
    policy: str
    caption: str
    own: str
    resolution: int
    target: float
    targets: Sequence[NamedTarget]

    def of(self, record: type[R]) -> list[R]:
        return [row for row in self.found.rows if isinstance(row, record)]

    def operator_control(self, names: Iterable[str]) -> Control:
        return self._seg(_("Operator"), "operator", [(name, name) for name in names], self.own)

    def target_control(self) -> Control:
        """The targets of the policy's largest entries, then the paper's."""
        labels = {one.target: f"{one.name} {percent(one.target)}" for one in self.targets[:_MOST_TARGETS]}
        for target in (*_PAPER_TARGETS, self.target):
            labels.setdefault(target, percent(target))
        choices = [(repr(target), label) for target, label in labels.items()]
        return self._seg(_("Target"), "target", choices, repr(self.target))

    def region_control(self) -> Control:
        choices = [(region, region_label(region)) for region in REGIONS]
        return self._seg(_("Region"), "region", choices, self.query.region)

    def count_control(self) -> Control:
        labels = {
            "misplaced": _("Another rank"),
            "lost": _("No longer distinct"),
            "pairs": _("Pairs ordered differently"),
        }
        return self._seg(_("Count"), "count", [(name, labels[name]) for name in COUNTS], self.query.count)

    def _seg(self, label: str, name: str, choices: Sequence[tuple[str, str]], chosen: str) -> Control:
        return Control(
            label,
            [
                Choice(f"{name}-{value}", text, changed(self.address, **{name: value}), value == chosen)
                for value, text in choices
            ],
        )
