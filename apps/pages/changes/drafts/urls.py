"""The editor's pages and fragments."""

from __future__ import annotations

from django.urls import path

from apps.pages.changes.drafts import edit_views as draft_edits
from apps.pages.changes.drafts import effect, paste_views, settings_views
from apps.pages.changes.drafts import views as drafts

_DRAFT = "changes/<int:change_set>/edit"

urlpatterns = [
    path("policy/<slug:policy>/edit", drafts.edit, name="edit"),
    path("policy/<slug:policy>/undo", drafts.undo, name="undo-publish"),
    path(f"{_DRAFT}/", drafts.draft, name="draft"),
    path(f"{_DRAFT}/_rows", drafts.rows, name="draft-rows"),
    path(f"{_DRAFT}/_panel", drafts.panel, name="draft-panel"),
    path(f"{_DRAFT}/_effect", effect.effect, name="draft-effect"),
    path(f"{_DRAFT}/_action", drafts.action, name="draft-action"),
    path(f"{_DRAFT}/_operation", draft_edits.operation, name="draft-operation"),
    path(f"{_DRAFT}/_log", draft_edits.log, name="draft-log"),
    path(f"{_DRAFT}/_update", draft_edits.update, name="draft-update"),
    path(f"{_DRAFT}/_finish", draft_edits.finish, name="draft-finish"),
    path(f"{_DRAFT}/_group", drafts.group, name="draft-group"),
    path(f"{_DRAFT}/paste/", paste_views.paste, name="draft-paste"),
    path(f"{_DRAFT}/settings/", settings_views.settings, name="draft-settings"),
]
