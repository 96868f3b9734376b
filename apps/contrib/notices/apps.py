from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PluginConfig, Words


class NoticesConfig(PluginConfig):
    """Notices with their mail and webhooks, and monthly statements."""

    name = "apps.contrib.notices"
    label = "notices"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from apps.contrib.notices import digests, webhook_calls, webhooks
        from apps.contrib.notices.rules import make_site_rules
        from apps.runs.kinds import register
        from apps.runs.queues import FEDERATION

        register(webhooks.RUN_KIND, webhook_calls.run_calls, queue=FEDERATION, title=_("calls of webhooks"))
        register(digests.RUN_KIND, digests.run_mails, queue=FEDERATION, title=_("mails"))
        post_migrate.connect(make_site_rules, sender=self, dispatch_uid="notices.make_site_rules")

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.notices.tabs import TABS

        return TABS

    def page_marks(self) -> Mapping[str, str]:
        columns = "count(*), max(news_at), max(changed_at)"
        return {"todo": f"(SELECT ({columns})::text FROM notices_notice WHERE closed_at IS NULL)"}  # noqa: S608 - constants

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        return {
            "close-statements": ("apps.contrib.notices.tasks.close_statements", 3600.0),
            "send-notices": ("apps.contrib.notices.tasks.send_notices", 30.0),
            "evaluate-notices": ("apps.contrib.notices.tasks.evaluate_notices", 300.0),
        }

    def metrics(self) -> Iterable[Any]:
        from apps.contrib.notices.gauges import mail_families

        return mail_families()

    def degradations(self) -> Iterable[Mapping[str, str]]:
        from apps.contrib.notices.gauges import mail_degradations

        return mail_degradations()

    def doctor_checks(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.notices.doctor import CHECK

        return {"mail": Addition(CHECK)}

    def attention_items(self, *, view: Any, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.notices.pages.attention import notice_items

        return notice_items(at, actor)

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.notices.audit_text import SENTENCES

        return SENTENCES

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        from apps.contrib.notices.audit_text import TOPICS

        return TOPICS

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.accounts.about_person import section

        return {
            "notices.mark": Addition(
                section("notices that they read or snoozed", "notice read_at snoozed_until"),
                after="onboarding.firstpolicydraft",
            ),
            "notices.preference": Addition(
                section("their mail settings", "interval hour muted statements_since"), after="notices.mark"
            ),
            "notices.mail": Addition(
                section("mail to them; texts are not stored", "period state attempts error created_at sent_at"),
                after="notices.preference",
            ),
            "notices.webhook": Addition(
                section("webhooks that they created, without secrets", "name url kinds is_on created_at"),
                after="notices.mail",
            ),
        }

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        from apps.contrib.notices import sample

        return {"decisions": sample.make_webhooks, "priorities": sample.find_notices}

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "notices": Addition("What needs attention, and the rules for it", after="me"),
        }

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.notices.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.notices.guides import GUIDES

        return GUIDES
