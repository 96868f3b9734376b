"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.notices import api as notices
from apps.contrib.notices.pages import urls as page_urls

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = []
urlpatterns += page_urls.urlpatterns
rest: list[URLPattern] = [
    path(f"{_POLICY}/statements", notices.StatementListView.as_view(), name="statements"),
    path("notices", notices.NoticeListView.as_view(), name="notices"),
    path("notices/kinds", notices.NoticeKindListView.as_view(), name="notice-kinds"),
    path("notices/rules", notices.NoticeRuleListView.as_view(), name="notice-rules"),
    path("notices/rules/<int:rule>", notices.NoticeRuleDetailView.as_view(), name="notice-rule"),
    path("notices/<int:notice>", notices.NoticeDetailView.as_view(), name="notice"),
]
