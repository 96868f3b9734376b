"""Pages of a change set's review, and lists of change sets."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.changes.review import followup_views as followup
from apps.pages.changes.review import views as changes
from apps.pages.changes.review.pages import TABS

_CHANGE = "changes/<int:change_set>"


def _tabs() -> list[URLPattern]:
    """A page and a fragment for each tab; the first is the review itself."""
    patterns = []
    for tab in TABS:
        page = f"{_CHANGE}/" if tab == TABS[0] else f"{_CHANGE}/{tab}/"
        patterns.append(path(page, changes.change, {"tab": tab}, name="change" if tab == TABS[0] else f"change-{tab}"))
        patterns.append(path(f"{_CHANGE}/_{tab}", changes.part, {"tab": tab}, name=f"change-part-{tab}"))
    return patterns


urlpatterns = [
    path("policy/<slug:policy>/changes/", changes.changes, name="changes"),
    path("policy/<slug:policy>/changes/_rows", changes.rows, name="changes-rows"),
    *_tabs(),
    path(f"{_CHANGE}/operations.json", changes.raw, name="change-operations"),
    path(f"{_CHANGE}/decide/", changes.decide, name="change-decide"),
    path(f"{_CHANGE}/conflicts/", changes.conflicts, name="change-conflicts"),
    path(f"{_CHANGE}/comment/", changes.comment, name="change-comment"),
    path(f"{_CHANGE}/compute/", changes.compute, name="change-compute"),
    path(f"{_CHANGE}/back-test/compute/", changes.compute_back_test, name="change-back-test-compute"),
    path(f"{_CHANGE}/_followup", followup.followup, name="change-followup"),
    path(f"{_CHANGE}/undo/", followup.undo, name="change-undo"),
    path(f"{_CHANGE}/_instant", changes.instant, name="change-instant"),
]
