from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PluginConfig, Words


class JobsConfig(PluginConfig):
    """Priorities of jobs: the calculator, and the ledger of SAM's queue."""

    name = "apps.contrib.jobs"
    label = "gateway"

    def nav_items(self) -> Iterable[Any]:
        from apps.web.shell.nav_items import NavItem, NavSection

        main = NavSection.MAIN
        yield NavItem(label=_("Job priorities"), icon="columns-3", routes=("jobs",), section=main, position=60)
        yield NavItem(
            label=_("Try job priorities"), icon="flask", routes=("jobs-calculator",), section=main, position=70
        )

    def body_limits(self) -> Mapping[str, Any]:
        from apps.contrib.jobs.job_cases import MOST_JOBS
        from apps.web.rest.body_limits import MB, Limit

        return {
            "api:jobs-explain": Limit(8 * MB, 40 * MOST_JOBS),
            "dashboard:jobs": Limit(8 * MB),
            "dashboard:jobs-result": Limit(8 * MB),
        }

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.jobs.audit_text import SENTENCES

        return SENTENCES

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "jobs": Addition("Priorities of jobs, term by term, from a case", after="feeds"),
        }

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.jobs.guides import GUIDES

        return GUIDES
