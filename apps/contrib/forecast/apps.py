from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig


class ForecastConfig(PluginConfig):
    """Forecasts, the rank after a job, and goals."""

    name = "apps.contrib.forecast"
    label = "forecast"

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"draft-goal": Addition(PageLink("entry.shares", _("Find shares for a goal"), "search"))}

    def my_priority_cards(self) -> Iterable[Any]:
        from apps.contrib.forecast.my_priority import CARDS

        return CARDS

    def my_figures(self) -> Mapping[str, Any]:
        from apps.contrib.forecast.my_priority import FIGURES

        return FIGURES

    def account_facts(self, priority: Any, *, actor: Any, at: datetime) -> Mapping[str, Any]:
        from apps.contrib.forecast.outlook import outlook_of

        return {"outlook": partial(outlook_of, priority)}

    def projections(self, *, view: Any, uids: Sequence[UUID]) -> Mapping[UUID, Any]:
        from apps.contrib.forecast.projections import project

        return dict(project(view, uids))

    def draft_projections(self, *, view: Any, rows: Sequence[Any]) -> Mapping[UUID, Any]:
        from apps.contrib.forecast.projections import project_draft

        return dict(project_draft(view, rows))

    def guide_routes(self) -> Mapping[str, Sequence[str]]:
        return {"My priority": ("GET me/forecast", "GET me/submit")}

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.forecast.guides import GUIDES

        return GUIDES

    def renamed_fields(self) -> Iterable[Any]:
        from apps.contrib.forecast.renamed_fields import RENAMED

        return RENAMED
