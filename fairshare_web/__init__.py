"""Wiring only: settings, routes and the task queue. Logic lives in apps/."""

import gc

# Every process of the product imports this package first. At Python's own threshold the import of a thousand modules
# causes 350 collections, which find nothing and take an eighth of the start.
gc.set_threshold(50_000, 20, 20)

from fairshare_web.celery import app as celery_app  # noqa: E402 - after the threshold

__all__ = ["celery_app"]
