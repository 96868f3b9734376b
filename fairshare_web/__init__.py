"""Wiring only: settings, routes and the task queue. Logic lives in apps/."""

from fairshare_web.celery import app as celery_app

__all__ = ["celery_app"]
