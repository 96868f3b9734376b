"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.starts.api import draft_waits as draft_waits_api
from apps.contrib.starts.api import now as now_api
from apps.contrib.starts.api import record as record_api
from apps.contrib.starts.pages import draft_waits, now, record

urlpatterns: list[URLPattern] = [
    path("schedulers/<slug:name>/starts/", record.start_record, name="scheduler-starts"),
    path("policy/<slug:policy>/now/", now.level_now, name="now"),
    path("changes/<int:change_set>/planned-waits/", draft_waits.draft_waits, name="change-planned-waits"),
]
rest: list[URLPattern] = [
    path("schedulers/<slug:scheduler>/starts", record_api.StartRecordView.as_view(), name="scheduler-starts"),
    path("policies/<slug:policy>/now", now_api.LevelNowView.as_view(), name="now"),
    path(
        "policies/<slug:policy>/changesets/<int:change_set>/planned-waits",
        draft_waits_api.DraftWaitsView.as_view(),
        name="changeset-planned-waits",
    ),
]
