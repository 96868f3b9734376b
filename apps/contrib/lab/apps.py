from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig


class LabConfig(PluginConfig):
    """Simulations, and the analysis of operators and resolutions."""

    name = "apps.contrib.lab"
    label = "lab"

    def nav_items(self) -> Mapping[str, Addition[Any]]:
        from apps.web.shell.places import POLICY_NAMES, Tab

        own = Tab(place="settings", label=_("Operators"), names=POLICY_NAMES, below="algorithm")
        return {"operators": Addition(own, after="algorithm")}

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"operators": Addition(PageLink("algorithm.check", _("Operator")))}

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.lab.guides import GUIDES

        return GUIDES
