"""The finding of each experiment of a list: the variant that changes the median wait most, beside the base.

A replay that doesn't explain the waits of history has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.changed import title_of
from apps.contrib.lab.experiments.headline import headline_of
from apps.contrib.lab.experiments.model_error import base_explains_waits
from apps.contrib.lab.experiments.permissions import policy_to_read
from apps.contrib.lab.experiments.records import Headline
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult


@dataclass(frozen=True, slots=True)
class ListedHeadline:
    """title: of the variant."""

    title: str
    headline: Headline
    headline_was: Headline


def list_headlines(
    *, policy_slug: str, experiment_ids: Sequence[int], at: datetime, actor: Actor
) -> Mapping[int, ListedHeadline]:
    """By experiment, of those in which the base and a variant are done."""
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    done: dict[int, dict[int, Headline]] = {}
    results = VariantResult.objects.filter(experiment__in=experiment_ids, experiment__policy=policy)
    for experiment_id, index, summary in results.values_list("experiment", "index", "summary"):
        headline = headline_of(summary.get("headline"))
        if headline is not None:
            done.setdefault(experiment_id, {})[index] = headline
    inputs = ExperimentInputs.objects.filter(experiment__in=done).values_list("experiment", "summary")
    history = {pk: headline_of(summary.get("history")) for pk, summary in inputs}
    chosen = {
        pk: _furthest(headlines)
        for pk, headlines in done.items()
        if 0 in headlines and len(headlines) > 1 and base_explains_waits(history.get(pk), headlines[0])
    }
    rows = Experiment.objects.filter(pk__in=chosen).values_list("pk", "revision_number", "spec")
    titles = {pk: title_of(policy, revision, read_spec(spec), chosen[pk]) for pk, revision, spec in rows}
    return {pk: ListedHeadline(titles[pk], done[pk][index], done[pk][0]) for pk, index in chosen.items()}


def _furthest(headlines: Mapping[int, Headline]) -> int:
    """The variant whose median wait is furthest from the base's, the first of several."""
    base = headlines[0].wait_median_s or 0.0
    variants = sorted(index for index in headlines if index)
    return max(variants, key=lambda index: abs((headlines[index].wait_median_s or 0.0) - base))
