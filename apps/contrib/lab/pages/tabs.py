"""Tabs of this plug-in in the navigation. Readers of all numbers find experiments on the reviews that they support."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition
from apps.web.shell.places import POLICY_NAMES, Tab

TABS: Mapping[str, Addition[Tab]] = {
    "lab": Addition(
        Tab(
            place="policy",
            label=_("Lab"),
            names=POLICY_NAMES,
            pages=("lab-*", "experiment", "experiment-*"),
            is_shown=attrgetter("manages_policy"),
        ),
        after="changes",
    ),
}
