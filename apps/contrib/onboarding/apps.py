from __future__ import annotations

from apps.core.plugins import PluginConfig


class OnboardingConfig(PluginConfig):
    """First steps: a first policy from files of a site that has a scheduler already."""

    name = "apps.contrib.onboarding"
    label = "onboarding"
    requires = ("apps.contrib.schedulers",)
