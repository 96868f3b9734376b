"""A site whose best setting is known, asked through the front doors: its advice, and an experiment of its lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.records import Advice, Evidence
from apps.contrib.lab.advisor.runs import get_advice
from apps.contrib.lab.experiments.records import ExperimentDetail
from apps.contrib.lab.experiments.selectors import get_experiment
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.models import PolicyAdvice
from apps.runs.services import work_due_runs
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.contrib.lab.advisor.known_sites import N_DAYS, KnownSite
from tests.contrib.lab.advisor.site import computed_advice
from tests.priority_site import AS_OF, Site

TO_AT = AS_OF.replace(hour=0)
FROM_AT = TO_AT - timedelta(days=N_DAYS)
DAY_S = 86_400
OPERATORS = ("relative", "absolute")
HALF_LIVES_DAYS = (2, 7, 30)


@dataclass(frozen=True)
class Answers:
    """The changed settings by subject; none where there is nothing to advise."""

    advice: Advice
    evidence: Evidence
    lab: ExperimentDetail

    @property
    def refusals(self) -> tuple[str, str]:
        """The headlines of advice and lab."""
        return self.advice.sentence, " ".join(each.headline for each in self.lab.verdicts)

    @property
    def by_advice(self) -> dict[str, str]:
        changed = {choice.subject: choice.recommended for choice in self.advice.choices if choice.is_change}
        return {("operator" if subject == "algorithm" else subject): name for subject, name in changed.items()}

    @property
    def by_lab(self) -> dict[str, str]:
        subjects = {"algorithm": "operator", "half_life": "half_life"}
        return {
            subjects[each.subject]: self.lab.variants[each.chosen].title for each in self.lab.verdicts if each.chosen
        }


def stored_site(make_site: Callable[..., Site], known: KnownSite) -> Site:
    """Its jobs as records, up to the last midnight."""
    made = make_site(at=FROM_AT - timedelta(days=2))
    people = [{"name": f"group{n}", "kind": "user", "shares": each} for n, each in enumerate(known.shares, start=1)]
    made.publish(people, known.settings, at=FROM_AT - timedelta(days=1))
    made.map(made.rule(suffix="/{user}"), at=FROM_AT - timedelta(days=1))
    ingest_batch(source=made.source, rows=records_of(known), at=AS_OF)
    made.recompute()
    return made


def records_of(known: KnownSite) -> list[RecordRow]:
    jobs = known.jobs()
    columns = (jobs.submit_s, jobs.started_s, jobs.run_s, jobs.requested_s, jobs.cpus, jobs.entry)
    return [_record(number, *row) for number, row in enumerate(zip(*(each.tolist() for each in columns), strict=True))]


def _record(
    number: int, submit_s: float, started_s: float, run_s: float, requested_s: float, cpus: int, entry: int
) -> RecordRow:
    has_started = np.isfinite(started_s)
    has_ended = has_started and started_s + run_s <= N_DAYS * DAY_S
    return RecordRow(
        job=str(number),
        user=f"group{entry}",
        group="all",
        state="finished" if has_ended else "running" if has_started else "pending",
        submit_at=_instant(submit_s),
        start_at=_instant(started_s) if has_started else None,
        end_at=_instant(started_s + run_s) if has_ended else None,
        cpus=cpus,
        requested_s=None if requested_s < 0 else requested_s,
    )


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(FROM_AT.timestamp() + seconds, UTC)


def asked(site: Site, known: KnownSite) -> Answers:
    """Both, of the same days."""
    run = computed_advice(site)
    assert run.state == "succeeded", run.error
    advice = get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).advice
    assert advice is not None
    evidence = Evidence.from_json(PolicyAdvice.objects.get(policy=site.policy).evidence)
    return Answers(advice, evidence, experiment(site, variants_of(known)))


def variants_of(known: KnownSite) -> list[dict[str, Any]]:
    """Each other operator, and each other half-life."""
    operators = [
        {"name": name, "settings": {"algorithm": {"operator": name}}} for name in OPERATORS if name != known.operator
    ]
    half_lives = [
        {"name": f"{days} days", "settings": {"window": {"half_life_s": days * DAY_S}}}
        for days in HALF_LIVES_DAYS
        if days != known.half_life_days
    ]
    return [*operators, *half_lives]


def experiment(site: Site, variants: list[dict[str, Any]], **workload: Any) -> ExperimentDetail:
    """A replay of all its days with these variants, worked to its end."""
    spec = {"workload": {"kind": "replay", "days": N_DAYS, **workload}, "variants": variants}
    made = create_experiment(policy_slug=site.slug, name="known", spec=spec, at=AS_OF, actor=COMMAND)
    work_due_runs(clock=lambda: AS_OF)
    detail = get_experiment(policy_slug=site.slug, experiment_id=made.pk, at=AS_OF, actor=COMMAND)
    assert (detail.row.state, detail.problem) == ("done", ""), [each.problem for each in detail.variants]
    return detail
