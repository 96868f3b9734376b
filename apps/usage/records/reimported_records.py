"""Records of an import that were imported again since: undoing it must not lose them."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from django.db import connection

from apps.runs.models import Run
from apps.usage.parsers.base import I8

_NOTE = """
INSERT INTO usage_repetition (run_id, by_run_id, n_records, last_at)
SELECT run.id, %s::int8, given.n, %s::timestamptz FROM unnest(%s::int8[], %s::int8[]) AS given(run_id, n)
JOIN runs_run AS run ON run.id = given.run_id WHERE run.kind = 'usage_import'
ON CONFLICT (run_id, by_run_id) DO UPDATE SET n_records = usage_repetition.n_records + EXCLUDED.n_records,
    last_at = EXCLUDED.last_at
"""


def note(stored_run_id: I8, *, run: Run | None, at: datetime) -> None:
    """Another import repeated these stored records; repetitions within one import don't count."""
    by_import = run.pk if run is not None and run.kind == "usage_import" else None
    found, n = np.unique(stored_run_id, return_counts=True)
    others = (found > 0) & (found != (run.pk if run else 0))
    if others.any():
        with connection.cursor() as cursor:
            cursor.execute(_NOTE, [by_import, at, found[others].tolist(), n[others].tolist()])
