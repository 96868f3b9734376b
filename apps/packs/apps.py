from __future__ import annotations

from django.apps import AppConfig


class PacksConfig(AppConfig):
    name = "apps.packs"
    label = "packs"
