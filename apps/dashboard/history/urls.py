"""Looking back: what was put in force, what differs between revisions, undoing, and the log of who did what."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.audit import views as audit
from apps.dashboard.history import views as history
from apps.dashboard.removal import views as removal

_HISTORY = "policy/<slug:policy>/history"

urlpatterns = [
    path("policy/<slug:policy>/remove/", removal.policy, name="policy-remove"),
    path(f"{_HISTORY}/", history.history, name="history"),
    path(f"{_HISTORY}/_rows", history.rows, name="history-rows"),
    path(f"{_HISTORY}/diff/", history.diff, name="diff"),
    path(f"{_HISTORY}/_diff", history.diff_part, name="diff-part"),
    path(f"{_HISTORY}/<int:revision>/undo/", history.undo, name="undo-revision"),
    path(f"{_HISTORY}/<int:revision>/restore/", history.restore, name="restore-revision"),
    path(f"{_HISTORY}/entry/<uuid:uid>/", history.entry, name="entry-history"),
    path("audit/", audit.audit, name="audit"),
    path("audit/_rows", audit.rows, name="audit-rows"),
    path("audit/_event", audit.event, name="audit-event"),
    path("audit/export.jsonl", audit.export_lines, name="audit-lines"),
    path("audit/export.csv", audit.export_table, name="audit-table"),
]
