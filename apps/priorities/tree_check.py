"""Effect of an operator at a resolution on one tree: its numbers, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.sentences.numbers import count, job_hours
from apps.priorities.sentences.operators import misplaced_text, operator_text, resolution_text, safe_bits_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCheck:
    """Effect of an operator at a resolution on one tree, at its newest usage. Counts are of leaves that the reader may
    see.
    """

    policy: Annotated[str, "Slug of the policy"]
    revision: Annotated[int, "Revision of the tree"]
    as_of: Annotated[datetime | None, "Instant of the usage; empty if there is none yet"]
    operator: Annotated[str, "Operator"]
    k: Annotated[float | None, "Weight of absolute in combined; empty for other operators"]
    resolution: Annotated[int, "Values of one component"]
    is_current: Annotated[bool, "The policy ranks by this operator at this resolution"]
    n_leaves: Annotated[int, "Ranked leaves"] = 0
    n_misplaced: Annotated[int, "Leaves with another rank than by exact numbers"] = 0
    n_lost: Annotated[int, "Leaves that share a vector with one whose exact numbers differ"] = 0
    n_tied_pairs: Annotated[int, "Pairs of leaves that tie only by rounding"] = 0
    n_turned_pairs: Annotated[int, "Pairs of leaves whose order is reversed by rounding"] = 0
    distinct_bits: Annotated[int | None, "Fewest bits that lose no distinction; empty if 31 are not enough"] = None
    same_ranks_bits: Annotated[
        int | None, "Bits from which on every leaf has its exact rank; empty: 31 are not enough"
    ] = None
    job_h: Annotated[float, "The queried job, in hours of the metric"]
    job_bits: Annotated[int | None, "Fewest bits at which this job is visible on every level; empty: never"] = None
    n_unseen: Annotated[int, "Entries at which this job is visible at no number of bits"] = 0
    n_fixed: Annotated[int, "Of these, entries without shares, or with all usage of their group"] = 0
    smallest_job_h: Annotated[float | None, "A larger job than this is visible for some leaf; empty: none is"] = None
    median_job_h: Annotated[
        float | None, "A larger job than this is visible for half of the leaves; empty: none is"
    ] = None
    unit: Annotated[str, "Unit of the jobs: core-hours if the metric counts cores only"]
    sentence: Annotated[str, "The finding in words"] = ""

    @property
    def n_pairs(self) -> int:
        return self.n_tied_pairs + self.n_turned_pairs


def check_sentence(check: TreeCheck) -> str:
    """Describe how many leaves change rank by rounding, which resolution is lossless, and which job is visible."""
    if check.as_of is None or not check.n_leaves:
        return ranks_sentence(check)
    return " ".join([ranks_sentence(check), _bits_needed_sentence(check), _job_sentence(check)])


def ranks_sentence(check: TreeCheck) -> str:
    """Describe how many leaves change rank by rounding."""
    if check.as_of is None:
        return _("No usage yet: numbers appear with the first recompute.")
    if not check.n_leaves:
        return _("No ranked leaf of this tree is visible to you.")
    values = {
        "resolution": resolution_text(check.resolution),
        "operator": operator_text(check.operator, check.k),
        "n": count(check.n_misplaced),
        "all": count(check.n_leaves),
        "pairs": count(check.n_pairs),
    }
    text = misplaced_text(check.n_misplaced) % values
    if not check.n_misplaced:
        return f"{text}."
    pairs = ngettext("%(pairs)s pair is ordered differently", "%(pairs)s pairs are ordered differently", check.n_pairs)
    return f"{text}; {pairs % values}."


def _bits_needed_sentence(check: TreeCheck) -> str:
    if check.same_ranks_bits is None or check.distinct_bits is None:
        return safe_bits_text(check.same_ranks_bits)
    values = {"distinct": check.distinct_bits, "bits": check.same_ranks_bits}
    return _("With %(distinct)s bits no two users tie by rounding, with %(bits)s bits all ranks are exact.") % values


def _job_sentence(check: TreeCheck) -> str:
    job = {"job": job_hours(check.job_h), "unit": check.unit, "bits": check.job_bits}
    if check.job_bits is None:
        return _("A job of %(job)s %(unit)s is visible on no level.") % job
    texts = [
        _("A job of %(job)s %(unit)s changes a component from %(bits)s bits on, on each level where one can show it.")
        % job
        if check.n_unseen
        else _("A job of %(job)s %(unit)s is visible on every level from %(bits)s bits.") % job
    ]
    n_too_fine = check.n_unseen - check.n_fixed
    if n_too_fine:
        text = ngettext(
            "For %(n)s entry with shares the operator changes the priority too little for any resolution.",
            "For %(n)s entries with shares the operator changes the priority too little for any resolution.",
            n_too_fine,
        )
        texts.append(text % {"n": count(n_too_fine)})
    return " ".join(texts)
