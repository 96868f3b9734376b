"""What a worker loads before its first task: each process of an instance has it in memory, and waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.apps import apps

from apps.core.code_paths import REPOSITORY

# As `celery --skip-checks -A fairshare_web worker` does.
LOADS = """
import sys
from fairshare_web.celery import app
app.loader.import_default_modules()
print(*sorted(sys.modules))
"""
# numba alone takes 60 MB. Pages and the description of REST are for web processes.
LEFT = ("numba", "llvmlite", "drf_spectacular.generators", "django.test", "fairshare_web.urls", "apps.web.rest.schema")


@pytest.mark.deep
def test_a_worker_loads_its_tasks_and_neither_the_compiler_nor_what_web_processes_need() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "fairshare_web.settings", "CELERY_SKIP_CHECKS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOADS], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "apps.runs.tasks" in loaded
    assert ("apps.contrib.lab.simulation.run" in loaded) == apps.is_installed("apps.contrib.lab")
    assert [name for name in LEFT if name in loaded] == []
