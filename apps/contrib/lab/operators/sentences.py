"""Sentences about operators and resolutions: the findings of a figure with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.lab.operators.records import ExponentPoint, FigureQuery
from apps.priorities.sentences.numbers import count, job_hours, number, percent, ratio, signed
from apps.priorities.sentences.operators import resolution_text
from apps.priorities.tree_check import TreeCheck, ranks_sentence


def profile_sentence(operator: str, target: float, density: Sequence[float]) -> str:
    """Describe the widest component of an operator at a target, and the number of unreached ones."""
    n = len(density)
    widest = max(range(n), key=lambda i: density[i])
    low, high = (signed(2 * i / n - 1, 2) for i in (widest, widest + 1))
    n_never = sum(not value for value in density)
    values = {
        "operator": operator,
        "target": percent(target, 0 if round(target * 100, 6).is_integer() else 1),
        "part": percent(density[widest]),
        "low": low,
        "high": high,
        "n": n,
        "never": n_never,
    }
    text = _(
        "At target %(target)s the widest component of %(operator)s holds %(part)s of all actuals: priorities "
        "%(low)s to %(high)s."
    )
    never = ngettext(
        "%(never)s of %(n)s components is never reached.",
        "%(never)s of %(n)s components are never reached.",
        n_never,
    )
    return f"{text % values} {never % values}"


def density_sentence(finest: str, coarsest: str, near: tuple[float, float]) -> str:
    """Name the operators that give the fewest and the most values to the two components next to balance."""
    text = _(
        "The operator %(finest)s gives %(low)s of the values to the two components next to balance, %(coarsest)s "
        "%(high)s: with fewer values per component, smaller differences are visible."
    )
    values = {"finest": finest, "low": percent(near[0]), "coarsest": coarsest, "high": percent(near[1])}
    return text % values


def job_size_sentence(job_h: float, bits: Sequence[tuple[str, int | None]]) -> str:
    """Describe from how many bits the job is visible around balance, for the best and the worst operator."""
    known = sorted((n, name) for name, n in bits if n is not None)
    if not known:
        return _("Around balance a job of %(job)s h is visible with no operator.") % {"job": job_hours(job_h)}
    (first, finest), (last, coarsest) = known[0], known[-1]
    text = _(
        "Around balance a job of %(job)s h is visible from %(first)s bits with %(finest)s, from %(last)s "
        "with %(coarsest)s."
    )
    return text % {"job": job_hours(job_h), "first": first, "finest": finest, "last": last, "coarsest": coarsest}


def best_sentence(best: Mapping[str, str]) -> str:
    """Name the operator with the smallest job in each region."""
    text = _("Smallest visible job: %(balance)s around balance, %(under)s under target, %(over)s over target.")
    return text % dict(best)


def bits_sentence(query: FigureQuery, own: str, overall: Mapping[str, int | None]) -> str:
    """Describe the bits that the own operator needs everywhere, and the operator that needs the fewest."""
    values = {
        "job": job_hours(query.job_h),
        "nodes": number(query.nodes, 0),
        "days": number(query.window_days, 0),
    }
    known = sorted((bits, name) for name, bits in overall.items() if bits is not None)
    if not known:
        return (
            _(
                "With %(nodes)s nodes, a window of %(days)s days and a job of %(job)s h, every operator needs more "
                "than 20 bits."
            )
            % values
        )
    bits, finest = known[0]
    values |= {"finest": finest, "bits": str(bits), "own": own}
    if finest == own:
        text = _(
            "Fewest bits with %(nodes)s nodes, a window of %(days)s days and a job of %(job)s h: %(finest)s %(bits)s."
        )
    elif overall.get(own) is None:
        text = _(
            "Fewest bits with %(nodes)s nodes, a window of %(days)s days and a job of %(job)s h: %(finest)s %(bits)s; "
            "%(own)s needs more than 20."
        )
    else:
        values["own_bits"] = str(overall[own])
        text = _(
            "Fewest bits with %(nodes)s nodes, a window of %(days)s days and a job of %(job)s h: %(finest)s %(bits)s; "
            "%(own)s %(own_bits)s."
        )
    return text % values


def aggregation_sentence(operator: str, fewest: int, most: int, n: int) -> str:
    """Describe how many components a target reaches, at worst and at best."""
    text = _("The operator %(operator)s reaches %(n)s of %(all)s components, depending on the target.")
    reached = str(most) if fewest == most else f"{fewest}–{most}"
    return text % {"operator": operator, "n": reached, "all": n}


def steps_sentence(operator: str, bits: int, component: int, part: float) -> str:
    """Describe the component that most pairs share."""
    low, high = (signed(2 * i / 2**bits - 1, 2) for i in (component, component + 1))
    text = _(
        "At %(bits)s bits %(part)s of all pairs share one component of %(operator)s: priorities %(low)s to %(high)s."
    )
    return text % {"bits": bits, "part": percent(part), "operator": operator, "low": low, "high": high}


def leaf_jobs_sentence(check: TreeCheck) -> str:
    """Describe the job that is visible for some leaf, and for half of them."""
    if check.as_of is None or not check.n_leaves:
        return ranks_sentence(check)
    values = {
        "resolution": resolution_text(check.resolution),
        "unit": check.unit,
        "n": count(check.n_leaves),
        "smallest": job_hours(check.smallest_job_h),
        "median": job_hours(check.median_job_h),
    }
    if check.smallest_job_h is None:
        return _("At resolution %(resolution)s no job changes the vector of any leaf.") % values
    text = _(
        "At resolution %(resolution)s a job of more than %(smallest)s %(unit)s changes the vector of some leaf, one of "
        "more than %(median)s that of half of the %(n)s leaves."
    )
    return text % values


def exponent_curve_sentence() -> str:
    """Describe the curve, without entries on it."""
    return _("The exponent is 1 where the parent is on target, and falls towards 0 the further it is from its target.")


def exponent_sentence(points: Sequence[ExponentPoint], *, is_queried: bool) -> str:
    """Describe the exponent of the queried entry, or the number of entries with an exponent below 1."""
    if is_queried:
        if not points:
            return _("This entry has no exponent: it is at the first level, or it or its parent used nothing.")
        return _one_exponent(points[0])
    partial = sum(point.k < 1 for point in points)
    text = ngettext(
        "For %(n)s of %(all)s entries below the first level, the own ratio has only part of its weight: the parent is "
        "on the other side of its target.",
        "For %(n)s of %(all)s entries below the first level, the own ratio has only part of its weight: the parents "
        "are on the other side of their targets.",
        partial,
    )
    return text % {"all": count(len(points)), "n": count(partial)}


def _one_exponent(point: ExponentPoint) -> str:
    values = {
        "entry": point.entry,
        "k": number(point.k, 2),
        "local": ratio(point.local_ratio),
        "above": ratio(point.parent_ratio),
    }
    text = _("The own ratio %(local)s of %(entry)s counts with the exponent %(k)s: its parent is at %(above)s.")
    return text % values
