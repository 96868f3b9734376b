from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PluginConfig, ReviewCard, Words


class LabConfig(PluginConfig):
    """Simulations, experiments, advice, and the analysis of operators and resolutions."""

    name = "apps.contrib.lab"
    label = "lab"
    extends = ("apps.contrib.notices",)

    def ready(self) -> None:
        from apps.contrib.lab.advisor.runs import KIND, run_advice
        from apps.contrib.lab.experiments import runs, trace_runs, traces
        from apps.runs.kinds import register
        from apps.runs.queues import IMPORT, SERIES

        register(
            runs.PREPARE,
            runs.run_preparation,
            queue=SERIES,
            most_of_key=runs.MOST_VARIANTS_AT_ONCE,
            title=_("the inputs of an experiment"),
        )
        register(
            runs.VARIANT,
            runs.run_variant,
            queue=SERIES,
            most_of_key=runs.MOST_VARIANTS_AT_ONCE,
            title=_("a simulation of the lab"),
        )
        register(
            traces.KIND,
            trace_runs.run_reading,
            queue=IMPORT,
            most_threads=1,
            title=_("the reading of a log for the lab"),
        )
        register(KIND, run_advice, queue=SERIES, length=1, title=_("the measuring of a policy"))

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        return {"renew-advice": ("apps.contrib.lab.tasks.renew_advice", 6 * 3600.0)}

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.lab.pages.tabs import TABS

        return TABS

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.lab.advisor.notice_kinds import CHANGED

        return {CHANGED.name: Addition(CHANGED, after="recompute_failed")}

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.lab.audit_text import SENTENCES

        return SENTENCES

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.accounts.about_person import section

        return {
            "lab.experiment": Addition(
                section("experiments that they made", "policy__slug name kind created_at"), after="notices.mail"
            ),
            "lab.uploadedtrace": Addition(
                section("logs that they uploaded for experiments", "policy__slug name digest created_at"),
                after="lab.experiment",
            ),
        }

    def review_cards(self) -> Mapping[str, ReviewCard]:
        from apps.contrib.lab.pages.evidence import is_shown

        return {
            "change-experiments": ReviewCard("experiments", _("Tried in the lab"), _("Experiments"), is_shown),
        }

    def settings_advice(self, *, policy_slug: str, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.lab.advisor.runs import get_advice
        from apps.contrib.lab.advisor.views import TEMPLATE, advice_context
        from apps.core.errors import NotAllowed
        from apps.pages.algorithm.advice import SettingsAdvice

        try:
            stored = get_advice(policy_slug=policy_slug, at=at, actor=actor)
        except NotAllowed:
            return ()
        return (SettingsAdvice(TEMPLATE, advice_context(stored, at=at, actor=actor)),)

    def body_limits(self) -> Mapping[str, Any]:
        from apps.web.rest.body_limits import MB, Limit

        spec = Limit(1 * MB, 50_000)  # 2,000 streams
        log = Limit(48 * MB)
        return {
            "api:experiments": spec,
            "api:experiment-estimate": spec,
            "api:experiment-traces": log,
            "pages:lab-new": log,
        }

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.lab.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.lab.guides import GUIDES

        return GUIDES

    def renamed_fields(self) -> Iterable[Any]:
        from apps.contrib.lab.renamed_fields import RENAMED

        return RENAMED
