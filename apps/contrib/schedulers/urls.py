"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.schedulers.api import limits, my_jobs, shadow, shares
from apps.contrib.schedulers.api import views as schedulers
from apps.contrib.schedulers.pages import urls as page_urls

_SCHEDULER = "schedulers/<slug:scheduler>"


urlpatterns: list[URLPattern] = []
urlpatterns += page_urls.urlpatterns
rest: list[URLPattern] = [
    path("schedulers", schedulers.SchedulerListView.as_view(), name="schedulers"),
    path(_SCHEDULER, schedulers.SchedulerDetailView.as_view(), name="scheduler"),
    path(f"{_SCHEDULER}/orders", schedulers.OrdersView.as_view(), name="scheduler-orders"),
    path(f"{_SCHEDULER}/passes", schedulers.PassListView.as_view(), name="scheduler-passes"),
    path(f"{_SCHEDULER}/queue", schedulers.QueueView.as_view(), name="scheduler-queue"),
    path(f"{_SCHEDULER}/why", schedulers.SchedulerWhyView.as_view(), name="scheduler-why"),
    path(f"{_SCHEDULER}/differences", shadow.DifferencesView.as_view(), name="scheduler-differences"),
    path(f"{_SCHEDULER}/on", shadow.SwitchOnView.as_view(), name="scheduler-on"),
    path(f"{_SCHEDULER}/shares", shares.SharesView.as_view(), name="scheduler-shares"),
    path(f"{_SCHEDULER}/shares/orders", shares.ShareOrderListView.as_view(), name="scheduler-share-orders"),
    path(f"{_SCHEDULER}/shares/orders/<int:order>", shares.ShareOrderView.as_view(), name="scheduler-share-order"),
    path(f"{_SCHEDULER}/shares/take-over", shares.TakeOverView.as_view(), name="scheduler-shares-take-over"),
    path(f"{_SCHEDULER}/shares/follow", shares.FollowView.as_view(), name="scheduler-follow"),
    path(f"{_SCHEDULER}/limits", limits.LimitsView.as_view(), name="scheduler-limits"),
    path(f"{_SCHEDULER}/limits/request", limits.LimitsRequestView.as_view(), name="scheduler-limits-request"),
    path(f"{_SCHEDULER}/limits/approve", limits.LimitsApprovalView.as_view(), name="scheduler-limits-approve"),
    path("me/waiting-jobs", my_jobs.MyWaitingJobsView.as_view(), name="me-waiting-jobs"),
    path("policies/<slug:policy>/why", schedulers.PolicyWhyView.as_view(), name="why"),
]
