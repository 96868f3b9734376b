from __future__ import annotations

from django.apps import AppConfig


class OnboardingConfig(AppConfig):
    name = "apps.onboarding"
    label = "onboarding"
