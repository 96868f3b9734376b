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
        return {"entry-core-hours-summary": EntryCard("core-hours", _("Core-hours"), _("Allocations"))}

    def attention_items(self, *, view: Any, at: datetime, actor: Any) -> Iterable[Any]:
        from apps.contrib.allocations.pages.attention import ending_items

        return ending_items(view, actor)

    def notice_kinds(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.allocations.notice_kinds import ENDING, OVER_BUDGET

        return {
            ENDING.name: Addition(ENDING, after="shares_changed"),
            OVER_BUDGET.name: Addition(OVER_BUDGET, after=ENDING.name),
        }

    def sample_parts(self) -> Mapping[str, Callable[[Any], None]]:
        from apps.contrib.allocations.sample import allocate_core_hours

        return {"policy": allocate_core_hours}

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.allocations.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.allocations.guides import GUIDES

        return GUIDES
