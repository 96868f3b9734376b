from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, EntryCard, PluginConfig, Words


class AllocationsConfig(PluginConfig):
    """Core-hours, capacities and reports for allocation boards."""

    name = "apps.contrib.allocations"
    label = "packs"
    requires = ("apps.contrib.notices",)

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.allocations.tabs import TABS

        return TABS

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.allocations.audit_text import SENTENCES

        return SENTENCES

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        from apps.contrib.allocations.audit_text import TOPICS

        return TOPICS

    def entry_cards(self) -> Mapping[str, EntryCard]:
        return {"entry-core-hours-summary": EntryCard("core-hours", _("Allocations"), _("Allocations"))}

    def attention_items(self, *, view: Any, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.allocations.pages.attention import ending_items

        return ending_items(view, actor)

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.allocations.notice_kinds import ENDING, OVER_BUDGET, RULE_LEVELS

        return {
            ENDING.name: Addition(ENDING, after="shares_changed"),
            OVER_BUDGET.name: Addition(OVER_BUDGET, after=ENDING.name),
            RULE_LEVELS.name: Addition(RULE_LEVELS, after=OVER_BUDGET.name),
        }

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.accounts.about_person import section

        fields = "policy__slug entry_uid unit amount starts_on ends_on reason created_at state answer decided_at"
        return {
            "packs.allocationrequest": Addition(section("requests for allocations that they sent or answered", fields))
        }

    def inbox_items(self, *, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.allocations.pages.inbox import request_items

        return request_items(at=at, actor=actor)

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        from apps.contrib.allocations.sample import allocate_core_hours

        return {"policy": allocate_core_hours}

    def schedule(self) -> Mapping[str, tuple[str, float]]:
        return {"act-on-allocation-rules": ("apps.contrib.allocations.tasks.act_on_allocation_rules", 60.0)}

    def document_sections(self) -> Mapping[str, Any]:
        from apps.contrib.allocations.exchange.document import KEY
        from apps.contrib.allocations.exchange.policy_document import SECTION

        return {KEY: SECTION}

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.allocations.rest_examples import REQUESTS

        return REQUESTS

    def body_limits(self) -> Mapping[str, Any]:
        from apps.contrib.allocations.bounds import MOST_PORTAL_VALUES
        from apps.web.rest.body_limits import MB, Limit

        return {"api:allocation-portal-usage": Limit(32 * MB, MOST_PORTAL_VALUES)}

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.allocations.guides import GUIDES

        return GUIDES

    def renamed_fields(self) -> Iterable[Any]:
        from apps.contrib.allocations.renamed_fields import RENAMED

        return RENAMED
