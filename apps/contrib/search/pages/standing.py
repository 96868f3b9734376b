"""Rank and balance of an entry in one line: what most searches for a name ask."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.contrib.search.entries import EntryHit
from apps.priorities.sentences import numbers as number_texts
from apps.web.shell import presentation
from apps.web.svg.bars import Tolerance


def standing_text(hit: EntryHit) -> str:
    """As far as the reader sees them; of a group the rank of its best user."""
    return ", ".join(part for part in (_rank_text(hit), _balance_text(hit)) if part)


def _rank_text(hit: EntryHit) -> str:
    if hit.rank is None:
        return ""
    text = _("Best rank %(rank)s") if hit.is_group else _("Rank %(rank)s")
    return text % {"rank": number_texts.count(hit.rank)}


def _balance_text(hit: EntryHit) -> str:
    if hit.actual is None or hit.target is None or hit.state == "unknown":
        return ""
    return presentation.balance_of(hit.state, hit.actual, hit.target, tolerance=Tolerance(0.0, hit.slack)).text
