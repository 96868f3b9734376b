"""The task queue. The broker is a doorbell: what has to happen stands in the database."""

from __future__ import annotations

import os
import warnings
from typing import Any

from celery import Celery
from celery.signals import worker_process_init

from apps.cli.stack.lifeline import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")

# Messages are JSON and say nothing but "look": a worker that runs as root, in a container, is no danger through them.
warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")

app = Celery("fairshare")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

_imported_in = os.getpid()  # the worker's own process; its pool is forked from it


@worker_process_init.connect
def _tie_pool_process(**_: Any) -> None:
    """A pool process whose worker was killed would wait on a closed pipe for ever."""
    die_with_parent(_imported_in)
