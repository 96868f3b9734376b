from __future__ import annotations

from django.apps import AppConfig


class SchedulersConfig(AppConfig):
    name = "apps.schedulers"
    label = "schedulers"
