"""Notices, their rules, the ways they go out, and statements."""

from __future__ import annotations

from django.urls import path

from apps.dashboard import statements
from apps.dashboard.notices import delivery_views as delivery
from apps.dashboard.notices import views as notices

_STATEMENTS = "policy/<slug:policy>/n/<uuid:uid>/<slug:name>/statements"

urlpatterns = [
    path(f"{_STATEMENTS}/", statements.statements, name="statements"),
    path(f"{_STATEMENTS}/table.csv", statements.table, name="statements-csv"),
    path("notices/", notices.notices, name="notices"),
    path("notices/_rows", notices.rows, name="notices-rows"),
    path("notices/read/", notices.read, name="notices-read"),
    path("notices/snooze/", notices.snooze, name="notices-snooze"),
    path("notices/rules/", notices.rules, name="notice-rules"),
    path("notices/rules/new/", notices.new_rule, name="notice-rule-new"),
    path("notices/rules/<int:rule>/", notices.rule, name="notice-rule"),
    path("notices/rules/<int:rule>/remove/", notices.remove_rule, name="notice-rule-remove"),
    path("notices/mail/", delivery.mail, name="notice-mail"),
    path("notices/unsubscribe/<str:token>/", delivery.unsubscribe, name="notice-unsubscribe"),
    path("notices/<int:notice>/", notices.follow, name="notice"),
    path("notices/webhooks/", delivery.webhooks, name="webhooks"),
    path("notices/webhooks/new/", delivery.new, name="webhook-new"),
    path("notices/webhooks/<int:webhook>/", delivery.webhook, name="webhook"),
    path("notices/webhooks/<int:webhook>/_log", delivery.log, name="webhook-log"),
    path("notices/webhooks/<int:webhook>/act/", delivery.act, name="webhook-act"),
]
