"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.allocations.api import balances, capacities, files, mine, packs, portal_usage, requests, rule_steps
from apps.contrib.allocations.api import views as allocations
from apps.contrib.allocations.pages import urls as page_urls

_POLICY = "policies/<slug:policy>"
_REQUEST = f"{_POLICY}/allocations/requests/<uuid:asked>"


urlpatterns: list[URLPattern] = [*page_urls.urlpatterns]
rest: list[URLPattern] = [
    path("me/allocations", mine.MyAllocationsView.as_view(), name="me-allocations"),
    path("me/balances.json", balances.BalancesView.as_view(), name="me-balances"),
    path(f"{_POLICY}/pack", packs.PackView.as_view(), name="pack"),
    path(f"{_POLICY}/allocations", allocations.AllocationListView.as_view(), name="allocations"),
    path(f"{_POLICY}/allocations/file", files.AllocationFileView.as_view(), name="allocation-file"),
    path(f"{_POLICY}/allocations/table", allocations.AllocationTableView.as_view(), name="allocation-table"),
    path(f"{_POLICY}/allocations/board", allocations.AllocationBoardView.as_view(), name="allocation-board"),
    path(f"{_POLICY}/allocations/portal-usage", portal_usage.PortalUsageView.as_view(), name="allocation-portal-usage"),
    path(f"{_POLICY}/allocations/shares", allocations.AllocationSharesView.as_view(), name="allocation-shares"),
    path(f"{_POLICY}/allocations/rule-steps", rule_steps.RuleStepsView.as_view(), name="allocation-rule-steps"),
    path(f"{_POLICY}/allocations/requests", requests.AllocationRequestListView.as_view(), name="allocation-requests"),
    path(f"{_REQUEST}/grant", requests.GrantView.as_view(), name="grant-allocation-request"),
    path(f"{_REQUEST}/decline", requests.DeclineView.as_view(), name="decline-allocation-request"),
    path(f"{_REQUEST}/withdraw", requests.WithdrawView.as_view(), name="withdraw-allocation-request"),
    path(f"{_POLICY}/allocations/<uuid:allocation>", allocations.AllocationDetailView.as_view(), name="allocation"),
    path(f"{_POLICY}/capacities", capacities.CapacityListView.as_view(), name="capacities"),
    path(f"{_POLICY}/capacities/<int:capacity>", capacities.CapacityDetailView.as_view(), name="capacity"),
]
