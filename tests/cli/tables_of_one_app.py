"""Settings of the product with the tables of one application, which are made in a second; no pages."""

from typing import Any

from fairshare_web.settings import *  # noqa: F403 - all of them

INSTALLED_APPS = ["apps.cli", "django.contrib.contenttypes", "django.contrib.sessions"]
ROOT_URLCONF = __name__
# Ours need the tables of people.
CSRF_FAILURE_VIEW = "django.views.csrf.csrf_failure"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
urlpatterns: list[Any] = []
