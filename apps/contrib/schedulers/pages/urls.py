"""Pages of schedulers, and why a job waits."""

from __future__ import annotations

from django.urls import path

from apps.contrib.schedulers.pages import connecting, limits, my_jobs, queue_views, shadow, views

_ONE = "schedulers/<slug:name>/"

urlpatterns = [
    path("schedulers/", views.schedulers, name="schedulers"),
    path("schedulers/new/", connecting.new, name="scheduler-new"),
    path(_ONE, views.scheduler, name="scheduler"),
    path(f"{_ONE}connect/", connecting.connect, name="scheduler-connect"),
    path(f"{_ONE}connect/_now", connecting.connect_now, name="scheduler-connect-now"),
    path(f"{_ONE}settings/", views.change_settings, name="scheduler-settings"),
    path(f"{_ONE}switch/", views.switch, name="scheduler-switch"),
    path(f"{_ONE}shadow/", shadow.shadow, name="scheduler-shadow"),
    path(f"{_ONE}shadow/on/", shadow.switch_on, name="scheduler-switch-on"),
    path(f"{_ONE}figures/agreement", shadow.agreement, name="scheduler-agreement"),
    path(f"{_ONE}figures/agreement.<str:form>", shadow.agreement),
    path(f"{_ONE}figures/lag", views.lag, name="scheduler-lag"),
    path(f"{_ONE}figures/lag.<str:form>", views.lag),
    path(f"{_ONE}remove/", views.remove, name="scheduler-remove"),
    path("fairshare-agent.pyz", views.program, {"name": "fairshare-agent.pyz"}, name="agent"),
    path("fairshare-callout.py", views.program, {"name": "fairshare-callout.py"}, name="callout"),
    path(f"{_ONE}shares/", views.shares, name="scheduler-shares"),
    path(f"{_ONE}limits/", limits.limits, name="scheduler-limits"),
    path("me/priority/_waiting", my_jobs.waiting_jobs, name="my-waiting-jobs"),
    path("policy/<slug:policy>/jobs/why/", queue_views.ask, name="job-why"),
    path("policy/<slug:policy>/jobs/why/<str:job>/", queue_views.why, name="job-why-of"),
]
