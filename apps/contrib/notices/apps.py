from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apps.core.plugins import PluginConfig


class NoticesConfig(PluginConfig):
    """Notices with their mail and webhooks, and monthly statements."""

    name = "apps.contrib.notices"
    label = "notices"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from apps.contrib.notices import digests, webhook_calls, webhooks
        from apps.contrib.notices.rules import make_site_rules
        from apps.runs.kinds import register

        register(webhooks.RUN_KIND, webhook_calls.run_calls, is_outgoing=True)
        register(digests.RUN_KIND, digests.run_mails, is_outgoing=True)
        post_migrate.connect(make_site_rules, sender=self, dispatch_uid="notices.make_site_rules")

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.notices.gauges import mail_families

        return mail_families()

    def degradations(self) -> Iterable[Mapping[str, str]]:
        from apps.contrib.notices.gauges import mail_degradations

        return mail_degradations()

    def attention_items(self, *, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.notices.pages.attention import notice_items

        return notice_items(at, actor)
