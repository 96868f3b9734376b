from django.apps import AppConfig


class FederationConfig(AppConfig):
    name = "apps.federation"
    label = "federation"

    def ready(self) -> None:
        from apps.federation import fetch_schedule as fetching
        from apps.runs.services import register

        register(fetching.KIND, fetching.work_fetch)
