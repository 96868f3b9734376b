"""Migrations that remove a feature say how many of its rows they drop."""

from __future__ import annotations

import sys
from typing import Any

from django.db import migrations


def report_dropped_rows(*models: str) -> migrations.RunPython:
    """The step before `DeleteModel`: counts the rows of each model, "app.Model", and prints what is about to go."""

    def report(apps: Any, schema_editor: Any) -> None:
        for name in models:
            n_rows = apps.get_model(name).objects.using(schema_editor.connection.alias).count()
            if n_rows:
                print(f"{name}: {n_rows:,} rows of a removed feature are dropped.", file=sys.stderr)

    return migrations.RunPython(report, migrations.RunPython.noop)
