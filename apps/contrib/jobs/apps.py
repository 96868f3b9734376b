from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PluginConfig, Words


class JobsConfig(PluginConfig):
    """Priorities of jobs: the calculator, and the ledger of SAM's queue."""

    name = "apps.contrib.jobs"
    label = "gateway"

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.web.shell.places import POLICY_NAMES, Tab

        place = "schedulers"
        return {
            "jobs": Addition(Tab(place=place, label=_("Explain a job")), after="job-why"),
            "jobs-calculator": Addition(Tab(place=place, label=_("Priority calculator")), after="jobs"),
            "sam": Addition(Tab(place=place, label=_("SAM queue"), names=POLICY_NAMES, below="jobs"), after="jobs"),
        }

    def body_limits(self) -> Mapping[str, Any]:
        from apps.contrib.jobs.job_cases import MOST_CASE_JOBS
        from apps.web.rest.body_limits import MB, Limit

        return {
            "api:jobs-explain": Limit(8 * MB, 40 * MOST_CASE_JOBS),
            "pages:jobs": Limit(8 * MB),
            "pages:jobs-result": Limit(8 * MB),
        }

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.jobs.audit_text import SENTENCES

        return SENTENCES

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "jobs": Addition("Priorities of jobs, term by term, from a case", after="feeds"),
        }

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.jobs.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.jobs.guides import GUIDES

        return GUIDES
