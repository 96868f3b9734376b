"""Migrations that remove a feature say how many of its rows they drop."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


def drop_rows_of_kinds(model: str, kinds: Sequence[str]) -> migrations.RunPython:
    """Deletes the rows of a model, "app.Model", whose `kind` is one of those removed, and prints how many."""

    def drop(apps: Any, schema_editor: Any) -> None:
        rows = apps.get_model(model).objects.using(schema_editor.connection.alias).filter(kind__in=kinds)
        if n_rows := rows.count():
            print(f"{model}: {n_rows:,} rows of the removed kinds {', '.join(kinds)} are dropped.", file=sys.stderr)
            rows.delete()

    return migrations.RunPython(drop, migrations.RunPython.noop)
