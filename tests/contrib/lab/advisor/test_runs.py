"""Advice in a run: measured, stored with a digest, and shown by its state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.records import Evidence
from apps.contrib.lab.advisor.runs import digest_of, get_advice, request_advice, request_monthly
from apps.contrib.lab.models import PolicyAdvice
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Record
from tests.contrib.lab.advisor.site import N_DAYS, SETTINGS, computed_advice, site_with_history
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db
MONTH = timedelta(days=31)


@pytest.mark.deep
def test_advice_is_computed_in_a_run_and_stored(site: Site) -> None:
    assert get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).state == "absent"
    request_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    assert get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).state == "asked"
    run = computed_advice(site)
    assert run.state == "succeeded", run.error
    stored = get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    advice = stored.advice
    assert advice is not None
    assert (stored.state, stored.revision) == ("ready", site.policy.head_number)
    assert [choice.subject for choice in advice.choices] == ["operator", "resolution", "half_life", "algorithm"]
    for choice in advice.choices:
        assert all(len(candidate.values) == len(choice.criteria) for candidate in choice.candidates)
        assert [each.name for each in choice.candidates if each.is_now] == [choice.now]
        assert [each.name for each in choice.candidates if each.is_recommended] == [choice.recommended]
    sample = advice.sample
    assert sample.n_replay_days in (N_DAYS, N_DAYS + 1)  # the first jobs may be of the evening before
    assert sample.n_jobs == Record.objects.count()
    assert advice.held_back is not None
    assert advice.held_back.n_days == sample.n_held_back_days == 5
    # Another run measures the same numbers.
    first = PolicyAdvice.objects.get().evidence
    computed_advice(site)
    assert PolicyAdvice.objects.get().evidence == first
    assert PolicyAdvice.objects.get().changed_at is None


def test_advice_of_an_earlier_revision_or_month_is_stale(advised: Site) -> None:
    assert get_advice(policy_slug=advised.slug, at=AS_OF + MONTH, actor=COMMAND).state == "stale"
    advised.publish(PROJECTS[:1], dict(SETTINGS))
    stored = get_advice(policy_slug=advised.slug, at=AS_OF, actor=COMMAND)
    assert stored.state == "stale"
    assert stored.advice is not None


@pytest.mark.deep
def test_advice_is_stale_once_usage_of_its_days_or_the_mapping_has_changed(advised: Site) -> None:
    def state() -> str:
        return get_advice(policy_slug=advised.slug, at=AS_OF, actor=COMMAND).state

    advised.job("bob", "physics", 1, ago_h=2)
    assert state() == "ready", "usage of today is of none of its days"
    advised.job("bob", "physics", 1000, ago_h=24 * 5)
    assert state() == "stale"
    computed_advice(advised)
    assert state() == "ready"
    advised.map(advised.rule(), advised.rule("/biology", kind="exact", user_pattern="bob"))
    assert state() == "stale"


@pytest.mark.deep
def test_damaged_evidence_is_named_and_computed_again(advised: Site) -> None:
    row = PolicyAdvice.objects.get()
    row.evidence["sample"]["n_leaves"] = 5
    row.save()
    stored = get_advice(policy_slug=advised.slug, at=AS_OF, actor=COMMAND)
    assert (stored.state, stored.advice) == ("failed", None)
    assert "damaged" in stored.problem
    row.evidence = {"version": 0}
    row.digest = digest_of(row.evidence)
    row.save()
    assert get_advice(policy_slug=advised.slug, at=AS_OF, actor=COMMAND).advice is None
    computed_advice(advised)
    assert get_advice(policy_slug=advised.slug, at=AS_OF, actor=COMMAND).state == "ready"


def test_without_usage_nothing_is_measured(make_site: Callable[..., Site]) -> None:
    site = make_site(at=AS_OF)
    site.publish(PROJECTS, dict(SETTINGS))
    run = computed_advice(site)
    assert run.state == "succeeded", run.error
    advice = get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).advice
    assert advice is not None
    assert advice.choices == ()
    assert advice.sentence == "Nothing is measured yet: there is too little usage."


def test_few_days_give_advice_on_the_tree_alone(make_site: Callable[..., Site]) -> None:
    site = site_with_history(make_site, n_days=5)
    site.recompute()
    computed_advice(site)
    advice = get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).advice
    assert advice is not None
    assert [choice.subject for choice in advice.choices] == ["operator", "resolution"]
    assert advice.held_back is None
    assert advice.sample.n_jobs == 0


def test_each_policy_is_asked_once_a_month(site: Site) -> None:
    assert [request_monthly(at=AS_OF), request_monthly(at=AS_OF)] == [1, 0]
    for run in Run.objects.filter(kind="advice", state="queued"):
        work_run_now(run.pk)
    assert request_monthly(at=AS_OF) == 0
    assert request_monthly(at=AS_OF + MONTH) == 1


def test_evidence_is_read_as_it_was_written(advised: Site) -> None:
    stored = PolicyAdvice.objects.get().evidence
    assert orjson.loads(orjson.dumps(Evidence.from_json(stored).to_json())) == stored
