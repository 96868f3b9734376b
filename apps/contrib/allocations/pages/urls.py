"""Pages and fragments of core-hours: allocations, capacity, calendar, dates of shares."""

from __future__ import annotations

from django.urls import path

from apps.contrib.allocations.pages import edit_views as edits
from apps.contrib.allocations.pages import entry_views as core_hours
from apps.contrib.allocations.pages import file_views, rule_views, unit_views
from apps.contrib.allocations.pages import views as allocations

_ALL = "policy/<slug:policy>/allocations"
_NODE = "policy/<slug:policy>/n/<uuid:uid>"

urlpatterns = [
    path(f"{_ALL}/", allocations.allocations, name="allocations"),
    path(f"{_ALL}/_table", allocations.table, name="allocations-table"),
    path(f"{_ALL}/_warnings", allocations.board_warnings, name="allocations-warnings"),
    path(f"{_ALL}/_soon", allocations.soon, name="allocations-soon"),
    path(f"{_ALL}/board.csv", allocations.download_board, name="allocations-board-csv"),
    path(f"{_ALL}/periods/", allocations.periods, name="allocations-periods"),
    path(f"{_ALL}/table.csv", allocations.download, name="allocations-csv"),
    path(f"{_ALL}/calendar/", allocations.calendar, name="allocations-calendar"),
    path(f"{_ALL}/calendar/_month", allocations.month, name="allocations-month"),
    path(f"{_ALL}/shares/", edits.shares, name="allocations-shares"),
    path(f"{_ALL}/capacity/", edits.capacities, name="capacities"),
    path(f"{_ALL}/capacity/<int:capacity_id>/", edits.capacity, name="capacity"),
    path(f"{_ALL}/rules/", rule_views.rules, name="allocation-rules"),
    path(f"{_ALL}/units/", unit_views.units, name="allocation-units"),
    path(f"{_ALL}/file/", file_views.file, name="allocation-file"),
    path(f"{_ALL}/file.<str:form>", file_views.download, name="allocation-file-download"),
    path(f"{_ALL}/<uuid:allocation>/", edits.allocation, name="allocation"),
    path(f"{_NODE}/_core-hours", core_hours.summary, name="entry-core-hours-summary"),
    path(f"{_NODE}/_allocation", core_hours.allocate, name="entry-allocation"),
    path(f"{_NODE}/_warnings", core_hours.allocation_warnings, name="entry-allocation-warnings"),
    path(f"{_NODE}/_request", core_hours.request_allocation, name="entry-allocation-request"),
    path(f"{_NODE}/_request/<uuid:asked>", core_hours.answer_request, name="entry-allocation-answer"),
    path(f"{_NODE}/_dates", core_hours.dates, name="entry-dates"),
    path(f"{_NODE}/<slug:name>/core-hours/", core_hours.entry, name="entry-core-hours"),
]
