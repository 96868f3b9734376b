from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig


class LabConfig(PluginConfig):
    """Simulations, and the analysis of operators and resolutions."""

    name = "apps.contrib.lab"
    label = "lab"

    def nav_items(self) -> Iterable[Any]:
        from apps.web.shell.nav_items import NavItem, NavSection

        yield NavItem(
            label=_("Operators"),
            icon="chart-line",
            routes=("operators",),
            section=NavSection.POLICY,
            position=55,
            is_of_policy=True,
        )

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"operators": Addition(PageLink("algorithm.check", _("Operator")))}

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.lab.guides import GUIDES

        return GUIDES
