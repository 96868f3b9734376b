from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "apps.web.rest"
    label = "api"

    def ready(self) -> None:
        from apps.web.rest import schema  # noqa: F401 - registers bearer tokens with the OpenAPI generator
