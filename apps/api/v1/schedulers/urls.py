"""Routes of schedulers."""

from __future__ import annotations

from django.urls import path

from apps.api.v1.schedulers import setup, shadow, shares, views

_ONE = "schedulers/<slug:scheduler>"

routes = [
    path("setup", setup.SetupView.as_view(), name="setup"),
    path("setup/policy", setup.SetupPolicyView.as_view(), name="setup-policy"),
    path("schedulers", views.SchedulerListView.as_view(), name="schedulers"),
    path(_ONE, views.SchedulerDetailView.as_view(), name="scheduler"),
    path(f"{_ONE}/orders", views.OrdersView.as_view(), name="scheduler-orders"),
    path(f"{_ONE}/passes", views.PassListView.as_view(), name="scheduler-passes"),
    path(f"{_ONE}/queue", views.QueueView.as_view(), name="scheduler-queue"),
    path(f"{_ONE}/why", views.SchedulerWhyView.as_view(), name="scheduler-why"),
    path(f"{_ONE}/differences", shadow.DifferencesView.as_view(), name="scheduler-differences"),
    path(f"{_ONE}/figures/agreement", shadow.AgreementFigureView.as_view(), name="scheduler-agreement"),
    path(f"{_ONE}/on", shadow.SwitchOnView.as_view(), name="scheduler-on"),
    path(f"{_ONE}/shares", shares.SharesView.as_view(), name="scheduler-shares"),
    path(f"{_ONE}/shares/orders", shares.ShareOrderListView.as_view(), name="scheduler-share-orders"),
    path(f"{_ONE}/shares/orders/<int:order>", shares.ShareOrderView.as_view(), name="scheduler-share-order"),
    path(f"{_ONE}/shares/take-over", shares.TakeOverView.as_view(), name="scheduler-shares-take-over"),
    path("policies/<slug:policy>/why", views.PolicyWhyView.as_view(), name="why"),
]
