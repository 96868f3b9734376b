"""Pages and fragments of core-hours: allocations, capacity, calendar, dates of shares."""

from __future__ import annotations

from django.urls import path

from apps.contrib.allocations.pages import edit_views as edits
from apps.contrib.allocations.pages import entry_views as core_hours
from apps.contrib.allocations.pages import views as allocations

_ALL = "policy/<slug:policy>/allocations"
_NODE = "policy/<slug:policy>/n/<uuid:uid>"

urlpatterns = [
    path(f"{_ALL}/", allocations.allocations, name="allocations"),
    path(f"{_ALL}/_table", allocations.table, name="allocations-table"),
    path(f"{_ALL}/_soon", allocations.soon, name="allocations-soon"),
    path(f"{_ALL}/_trial", allocations.trial, name="allocations-trial"),
    path(f"{_ALL}/table.csv", allocations.download, name="allocations-csv"),
    path(f"{_ALL}/figures/<slug:figure>", allocations.figure, name="allocations-figure"),
    path(f"{_ALL}/figures/<slug:figure>.<str:form>", allocations.figure),
    path(f"{_ALL}/calendar/", allocations.calendar, name="allocations-calendar"),
    path(f"{_ALL}/calendar/_month", allocations.month, name="allocations-month"),
    path(f"{_ALL}/shares/", edits.shares, name="allocations-shares"),
    path(f"{_ALL}/capacity/", edits.capacities, name="capacities"),
    path(f"{_ALL}/capacity/<int:capacity_id>/", edits.capacity, name="capacity"),
    path(f"{_ALL}/<uuid:allocation>/", edits.allocation, name="allocation"),
    path(f"{_NODE}/_core-hours", core_hours.summary, name="entry-core-hours-summary"),
    path(f"{_NODE}/_allocation", core_hours.allocate, name="entry-allocation"),
    path(f"{_NODE}/_dates", core_hours.dates, name="entry-dates"),
    path(f"{_NODE}/<slug:name>/core-hours/", core_hours.entry, name="entry-core-hours"),
]
