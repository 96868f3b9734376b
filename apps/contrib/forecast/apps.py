from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig


class ForecastConfig(PluginConfig):
    """Forecasts, what-if and goals."""

    name = "apps.contrib.forecast"
    label = "forecast"

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        goal = PageLink(
            "entry.head", _("Goal"), "flask", is_shown=lambda page: bool(page.ancestors) and page.may_change
        )
        return {"goal": Addition(goal)}
