from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "apps.web.rest"
    label = "api"
