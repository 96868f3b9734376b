"""The finding of each experiment of a list: of a replay its verdict, else the variant that changes waits most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments.changed import title_of
from apps.contrib.lab.experiments.headline import headline_of
from apps.contrib.lab.experiments.model_error import base_explains_waits
from apps.contrib.lab.experiments.permissions import policy_to_read
from apps.contrib.lab.experiments.records import Headline
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.experiments.verdicts import sample_of, verdicts_of
from apps.contrib.lab.models import Experiment, ExperimentInputs, VariantResult


@dataclass(frozen=True, slots=True)
class ListedHeadline:
    """title: of the variant. verdict: of a replay that is compared, in one sentence; else empty."""

    title: str
    headline: Headline
    headline_was: Headline
    verdict: str


def list_headlines(
    *, policy_slug: str, experiment_ids: Sequence[int], at: datetime, actor: Actor
) -> Mapping[int, ListedHeadline]:
    """By experiment, of those in which the base and a variant are done."""
    policy = policy_to_read(slug=policy_slug, at=at, actor=actor)
    done: dict[int, dict[int, Headline]] = {}
    compared: dict[int, dict[int, Mapping[str, Any]]] = {}
    results = VariantResult.objects.filter(experiment__in=experiment_ids, experiment__policy=policy)
    for experiment_id, index, summary in results.values_list("experiment", "index", "summary"):
        headline = headline_of(summary.get("headline"))
        if headline is not None:
            done.setdefault(experiment_id, {})[index] = headline
        if summary.get("compared"):
            compared.setdefault(experiment_id, {})[index] = summary["compared"]
    inputs = ExperimentInputs.objects.filter(experiment__in=done).values_list("experiment", "summary")
    history = {pk: headline_of(summary.get("history")) for pk, summary in inputs}
    chosen = {
        pk: _furthest(headlines)
        for pk, headlines in done.items()
        if 0 in headlines
        and len(headlines) > 1
        and (sample_of(compared.get(pk, {})) or base_explains_waits(history.get(pk), headlines[0]))
    }
    rows = Experiment.objects.filter(pk__in=chosen).values_list("pk", "revision_number", "spec")
    specs = {pk: (revision, read_spec(spec)) for pk, revision, spec in rows}

    def of(pk: int, index: int) -> ListedHeadline:
        titles = {each: title_of(policy, *specs[pk], each) for each in done[pk]}
        verdicts = verdicts_of(compared.get(pk, {}), titles)
        first = next((each for each in verdicts if each.chosen), verdicts[0] if verdicts else None)
        return ListedHeadline(titles[index], done[pk][index], done[pk][0], "" if first is None else first.headline)

    return {pk: of(pk, index) for pk, index in chosen.items()}


def _furthest(headlines: Mapping[int, Headline]) -> int:
    """The variant whose median wait is furthest from the base's, the first of several."""
    base = headlines[0].wait_median_s or 0.0
    variants = sorted(index for index in headlines if index)
    return max(variants, key=lambda index: abs((headlines[index].wait_median_s or 0.0) - base))
