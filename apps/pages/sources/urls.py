"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.sources import views as sources
from apps.pages.sources.api import quality as quality_api
from apps.pages.sources.api import sources as sources_api
from apps.pages.sources.api import views as usage
from apps.pages.sources.imports import undo_views as import_undo
from apps.pages.sources.imports import views as imports
from apps.pages.sources.quality import views as quality
from apps.web.changes import removal
from apps.web.rest import removal as removal_api

_IMPORT = "usage/imports/<int:import_id>"


urlpatterns: list[URLPattern] = [
    path("usage/figures/coverage", sources.coverage, name="coverage"),
    path("usage/figures/coverage.<str:form>", sources.coverage),
    path("usage/sources/", sources.sources, name="sources"),
    path("usage/sources/new/", sources.new, name="source-new"),
    path("usage/sources/<slug:slug>/", sources.source, name="source"),
    path("usage/sources/<slug:slug>/settings/", sources.settings, name="source-settings"),
    path("usage/sources/<slug:slug>/pause/", sources.pause, name="source-pause"),
    path("usage/sources/<slug:slug>/resume/", sources.resume, name="source-resume"),
    path("usage/sources/<slug:slug>/collect/", sources.collect, name="source-collect"),
    path("usage/sources/<slug:slug>/_collecting", sources.collecting, name="source-collecting"),
    path("usage/sources/<slug:slug>/remove/", removal.source, name="source-remove"),
    path("usage/quality/changed.csv", quality.changed_csv, name="data-quality-changed"),
    path("usage/import/", imports.upload, name="upload"),
    path(f"{_IMPORT}/", imports.import_, name="import"),
    path(f"{_IMPORT}/_progress", imports.import_progress, name="import-progress"),
    path(f"{_IMPORT}/_rejected", imports.import_rejected, name="import-rejected"),
    path(f"{_IMPORT}/rejected.csv", imports.import_rejected_csv, name="import-rejected-csv"),
    path(f"{_IMPORT}/cancel/", imports.import_cancel, name="import-cancel"),
    path(f"{_IMPORT}/confirm/", imports.import_confirm, name="import-confirm"),
    path(f"{_IMPORT}/undo/", import_undo.import_undo, name="import-undo"),
    path("usage/overlaps/", import_undo.overlaps, name="overlaps"),
    path("usage/overlaps/decide/", import_undo.overlap_decide, name="overlap-decide"),
]
rest: list[URLPattern] = [
    path("usage/records", usage.RecordListView.as_view(), name="usage-records"),
    path("usage/sources", sources_api.SourceListView.as_view(), name="usage-sources"),
    path("usage/sources/<slug:source>", sources_api.SourceDetailView.as_view(), name="usage-source"),
    path("usage/sources/<slug:source>/collect", sources_api.CollectionView.as_view(), name="usage-source-collect"),
    path("usage/sources/<slug:source>/pause", sources_api.PauseView.as_view(), name="usage-source-pause"),
    path("usage/sources/<slug:source>/resume", sources_api.ResumptionView.as_view(), name="usage-source-resume"),
    path("usage/quality", quality_api.QualityListView.as_view(), name="usage-quality"),
    path("usage/formats", usage.UsageFormatListView.as_view(), name="usage-formats"),
    path("usage/buckets", usage.BucketListView.as_view(), name="usage-buckets"),
    path(
        "usage/sources/<slug:source>/removal", removal_api.preview_view("source").as_view(), name="usage-source-removal"
    ),
    path(
        "usage/sources/<slug:source>/archive",
        removal_api.change_view("archive_source").as_view(),
        name="usage-source-archive",
    ),
    path(
        "usage/sources/<slug:source>/restore",
        removal_api.change_view("restore_source").as_view(),
        name="usage-source-restore",
    ),
]
