from django.apps import AppConfig


class PrioritiesConfig(AppConfig):
    name = "apps.priorities"
    label = "priorities"
