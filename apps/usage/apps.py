from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "apps.usage"
    label = "usage"

    def ready(self) -> None:
        from apps.runs.registry import register
        from apps.usage.imports import KIND, work_import

        register(KIND, work_import)
