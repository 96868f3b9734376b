"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.policies.api import documents
from apps.pages.policies.api import views as policies
from apps.pages.policies.files import views as policy_files
from apps.web.changes import removal
from apps.web.rest import removal as removal_api

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/files/", policy_files.files, name="policy-files"),
    path("policy/<slug:policy>/files/<int:change_set>/", policy_files.decide, name="policy-file"),
    path("policy/<slug:policy>/files/against/", policy_files.against, name="policy-against"),
    path("policy/<slug:policy>/files/<slug:format>/", policy_files.download, name="policy-download"),
    path("policy/<slug:policy>/remove/", removal.policy, name="policy-remove"),
]
rest: list[URLPattern] = [
    path("policies", policies.PolicyListView.as_view(), name="policies"),
    path(_POLICY, policies.PolicyDetailView.as_view(), name="policy"),
    path(f"{_POLICY}/removal", removal_api.preview_view("policy").as_view(), name="policy-removal"),
    path(f"{_POLICY}/archive", removal_api.change_view("archive_policy").as_view(), name="policy-archive"),
    path(f"{_POLICY}/restore", removal_api.change_view("restore_policy").as_view(), name="policy-restore"),
    path(f"{_POLICY}/document", documents.DocumentView.as_view(), name="document"),
    path(f"{_POLICY}/document/against", documents.AgainstView.as_view(), name="document-against"),
    path(f"{_POLICY}/revisions", policies.RevisionListView.as_view(), name="revisions"),
]
