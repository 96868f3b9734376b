"""Variants of a replay compared by the rule of advice: the same jobs, machine, days and repeated replays. Pure.

Compared are variants that change settings of the policy alone: algorithm, window and approach. Where shares, jobs or
the data differ, fair use is another one, or nothing in history shows what would have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from apps.contrib.lab.comparison.replayed_settings import Replays, half_life_window
from apps.contrib.lab.experiments.inputs import Inputs, VariantInputs
from apps.contrib.lab.experiments.past_usage import summed
from apps.contrib.lab.experiments.replayed_jobs import jobs_to_compare
from apps.contrib.lab.experiments.spec import Changes, ReplayWorkload
from apps.contrib.lab.simulation.scenario import PastUsage
from apps.contrib.lab.simulation.streams import HOUR_S

_OF_SETTINGS = {"name", "settings", "change_set"}
_PLAIN = Changes()


def why_not_compared(inputs: Inputs) -> str:
    """Empty, or why no variant of this replay is compared: a stable name of `verdicts.WHY_NOT`."""
    workload = inputs.spec.workload
    if not isinstance(workload, ReplayWorkload) or workload.cpus:
        return "machine"
    return "" if _changes_settings_alone(inputs.spec.base) else "base"


def compare_variant(inputs: Inputs, index: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """What is stored of a variant: `facts`, of the base also `sample`, or `reason`, why it isn't compared.

    progress: as of `simulate_variant`.
    """
    reason = why_not_compared(inputs) or _reason_of(inputs, index)
    if reason:
        return {"reason": reason}
    replays = replays_of(inputs, progress)
    sample = replays.sample()
    if sample is None:
        return {"reason": "few"}
    settings = inputs.variant(index).settings
    facts = asdict(replays.of_variant("", settings, is_now=index == 0))
    half_life_s = settings["window"].get("half_life_s")
    compared = {"reason": "", "facts": facts, "half_life_s": half_life_s}
    if index == 0:
        return {**compared, "subject": "", "sample": asdict(sample), "happened": replays.happened()}
    return {**compared, "subject": subject_of(inputs.variant(0).settings, settings)}


def subject_of(base: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What a variant changes: the half-life alone, the algorithm alone, or other settings; empty for nothing."""
    changed = [part for part in ("algorithm", "window", "approach") if base[part] != settings[part]]
    if not changed:
        return ""
    if changed == ["algorithm"]:
        return "algorithm"
    window = settings["window"]
    is_half_life = changed == ["window"] and half_life_window(base["window"], window.get("half_life_s")) == window
    return "half_life" if is_half_life else "settings"


def replays_of(inputs: Inputs, progress: Callable[[float], None]) -> Replays:
    """Of the jobs of history on the tree of the base."""
    base, jobs = inputs.variant(0), inputs.jobs
    if jobs is None:
        raise ValueError("The jobs of this experiment are drawn.")
    begins_s = (0.0, *inputs.day_ends_s[:-1])
    compared, first_s = jobs_to_compare(jobs, base.entry_of_who[jobs.who], jobs.rate, begins_s)
    return Replays(
        base.tree.engine_tree,
        compared,
        base.settings,
        _past(base, int(first_s // HOUR_S)),
        inputs.origin_s + first_s,
        progress=progress,
    )


def _past(base: VariantInputs, later_h: int) -> PastUsage | None:
    """Usage before, by entry and hour, wherever it was; hours before the first day that is compared."""
    past = base.past
    if not len(past.entry):
        return None
    joined = summed(past.entry, np.full(len(past.entry), -1, np.int64), past.hour - later_h, past.amount)
    return PastUsage(joined.entry, joined.site, joined.hour, joined.amount)


def _reason_of(inputs: Inputs, index: int) -> str:
    if index == 0:
        return ""
    if not _changes_settings_alone(inputs.spec.setup(index)):
        return "data"
    base, variant = inputs.variant(0), inputs.variant(index)
    same_tree = len(base.tree) == len(variant.tree) and all(
        np.array_equal(getattr(base.tree, name), getattr(variant.tree, name))
        for name in ("uid", "parent", "shares", "inherits", "is_group", "is_reserve")
    )
    is_same = same_tree and not len(variant.rate) and np.array_equal(base.entry_of_who, variant.entry_of_who)
    return "" if is_same else "draft"


def _changes_settings_alone(changes: Changes) -> bool:
    others = (each.name for each in fields(Changes) if each.name not in _OF_SETTINGS)
    return all(getattr(changes, name) == getattr(_PLAIN, name) for name in others)
