"""Sites that leave something unknown: advice and lab say what, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.records import Advice
from apps.contrib.lab.advisor.runs import get_advice
from apps.contrib.lab.advisor.sentences import sample as sample_text
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from tests.contrib.lab.advisor.known_answers import overloaded
from tests.contrib.lab.advisor.known_sites import N_DAYS, KnownSite, Stream
from tests.contrib.lab.advisor.site import computed_advice
from tests.contrib.lab.asked_site import asked, experiment, stored_site
from tests.priority_site import AS_OF, PROJECTS, Site, new_site

pytestmark = pytest.mark.django_db
FEW = KnownSite((3, 1), (Stream(1, 0.03), Stream(2, 0.03)), operator="absolute")


def advice_of(site: Site) -> Advice:
    run = computed_advice(site)
    assert run.state == "succeeded", run.error
    advice = get_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND).advice
    assert advice is not None
    return advice


@pytest.mark.deep
def test_without_waiting_jobs_no_order_makes_a_difference(make_site: Callable[..., Site]) -> None:
    advice = advice_of(stored_site(make_site, FEW))
    assert not advice.is_change
    assert "Jobs waited 0\u00a0s on average: hardly any order of them makes a difference." in advice.sentence


@pytest.mark.deep
def test_waiting_jobs_without_requested_times_are_named(make_site: Callable[..., Site]) -> None:
    """Their demand is unknown; that of the others is known, so the answer stands."""
    unasked = tuple(Stream(entry, 0.6, asks=-1.0) for entry in (2, 3))
    site = KnownSite((60, 30, 10), unasked, operator="absolute")
    n_waiting = int((site.jobs().started_s != site.jobs().started_s).sum())
    assert n_waiting > 100
    advice = advice_of(stored_site(make_site, site))
    assert advice.sample.n_unknown == n_waiting
    assert advice.sample.n_unrequested == advice.sample.n_jobs
    text = sample_text(advice.sample)
    assert f"Of {n_waiting} jobs that wait no requested time is known" in text
    assert "of the jobs have no requested time: the replay knew when they would end." in text


def test_one_job_compares_nothing(make_site: Callable[..., Site]) -> None:
    site = make_site(at=AS_OF.replace(day=1))
    site.publish(PROJECTS, at=AS_OF.replace(day=1))
    site.map(at=AS_OF.replace(day=1))
    site.job("alice", "physics", 3, ago_h=50)
    site.recompute()
    advice = advice_of(site)
    assert not advice.is_change
    assert advice.held_back is None
    assert "aren't compared: 1 job on 2 days. A comparison takes 100 jobs of two entries or more" in advice.sentence


def test_records_of_another_policy_alone_are_no_jobs_of_this_one(make_site: Callable[..., Site]) -> None:
    stored_site(make_site, FEW)
    other = new_site("other", at=AS_OF.replace(day=1))
    other.publish(PROJECTS, at=AS_OF.replace(day=1))
    other.map(at=AS_OF.replace(day=1))
    other.recompute()
    advice = advice_of(other)
    assert not advice.is_change
    assert advice.sample.n_own_jobs == 0
    assert "no job of these days has an entry in this policy" in advice.sentence


@pytest.mark.deep
def test_a_draft_of_the_operator_alone_is_compared_as_its_setting(make_site: Callable[..., Site]) -> None:
    """And one that changes shares says that its fair use is another one."""
    site = stored_site(make_site, overloaded(1.8))
    operations: list[dict[str, Any]] = [
        {"op": "set_policy", "settings": {"algorithm": {"operator": "relative"}}},
        {"op": "set_shares", "entry": "/group1", "shares": 10},
    ]
    drafts = [_draft(site, each) for each in operations]
    setting = {"settings": {"algorithm": {"operator": "relative"}}}
    detail = experiment(site, [{"change_set": drafts[0]}, {"change_set": drafts[1]}, setting])
    by_draft, other_tree, by_setting = (detail.variants[index].compared for index in (1, 2, 3))
    assert by_draft == by_setting
    assert other_tree is not None
    assert other_tree.held_back_points is None
    assert other_tree.why_not.startswith("No verdict: it has another tree")
    assert [(each.subject, each.chosen) for each in detail.verdicts] == [("algorithm", 1)]


def _draft(site: Site, operation: dict[str, Any]) -> int:
    new = NewChangeSet(operations=[operation], reason="test")
    return make_change_set(policy_slug=site.slug, new=new, at=AS_OF, actor=COMMAND).pk


@pytest.mark.deep
def test_a_capacity_that_doubles_is_that_of_each_day(make_site: Callable[..., Site]) -> None:
    """The backlog of the first half lasts to the end: fair use is 75 and 25 % on all days."""
    known = overloaded(1.8, more_cpus=10)
    answers = asked(stored_site(make_site, known), known)
    assert answers.by_advice == answers.by_lab == {"operator": "relative"}
    sample = answers.advice.sample
    assert (sample.least_cpus, sample.cpus, sample.n_replay_days) == (10, 20, N_DAYS)
    assert "On the day with the fewest there were 10: other days had another machine." in sample_text(sample)
    assert answers.lab.sites == {"grid-c1": 20}
