from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig, Words


class SchedulersConfig(PluginConfig):
    """Schedulers: their agents, queues, shadow mode and orders of shares."""

    name = "apps.contrib.schedulers"
    label = "schedulers"
    requires = ("apps.contrib.jobs",)
    extends = ("apps.contrib.notices",)

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.schedulers.gauges import scheduler_families

        return scheduler_families()

    def notice_kinds(self) -> Mapping[str, Any]:
        from apps.contrib.schedulers.agent_notice import KIND

        return {KIND.name: KIND}

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.schedulers.audit_text import SENTENCES

        return SENTENCES

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        from apps.contrib.schedulers.audit_text import TOPICS

        return TOPICS

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"job-why": Addition(PageLink("charges.head", _("Waiting jobs"), "clock"))}

    def my_priority_cards(self) -> Iterable[Any]:
        from apps.contrib.schedulers.pages.my_jobs import CARDS

        return CARDS

    def account_facts(self, mine: Any, *, actor: Any, at: datetime) -> Mapping[str, Any]:
        from apps.contrib.schedulers.my_jobs import load_queue_facts

        return {"queue": load_queue_facts(mine, actor=actor, at=at)}
