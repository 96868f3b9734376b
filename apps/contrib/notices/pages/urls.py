"""Notices, their rules, the ways they go out, and statements."""

from __future__ import annotations

from django.urls import path

from apps.contrib.notices import statement_views as statements
from apps.contrib.notices.pages import mail_views, rule_views, webhook_views
from apps.contrib.notices.pages import views as notices

_STATEMENTS = "policy/<slug:policy>/n/<uuid:uid>/<slug:name>/statements"

urlpatterns = [
    path(f"{_STATEMENTS}/", statements.statements, name="statements"),
    path(f"{_STATEMENTS}/table.csv", statements.table, name="statements-csv"),
    path("notices/", notices.notices, name="notices"),
    path("notices/_rows", notices.rows, name="notices-rows"),
    path("notices/read/", notices.read, name="notices-read"),
    path("notices/snooze/", notices.snooze, name="notices-snooze"),
    path("notices/rules/", rule_views.rules, name="notice-rules"),
    path("notices/rules/new/", rule_views.new_rule, name="notice-rule-new"),
    path("notices/rules/<int:rule>/", rule_views.rule, name="notice-rule"),
    path("notices/rules/<int:rule>/remove/", rule_views.remove_rule, name="notice-rule-remove"),
    path("notices/mail/", mail_views.mail, name="notice-mail"),
    path("notices/unsubscribe/<str:token>/", mail_views.unsubscribe, name="notice-unsubscribe"),
    path("notices/<int:notice>/", notices.follow, name="notice"),
    path("notices/webhooks/", webhook_views.webhooks, name="webhooks"),
    path("notices/webhooks/new/", webhook_views.new, name="webhook-new"),
    path("notices/webhooks/<int:webhook>/", webhook_views.webhook, name="webhook"),
    path("notices/webhooks/<int:webhook>/_log", webhook_views.log, name="webhook-log"),
    path("notices/webhooks/<int:webhook>/act/", webhook_views.act, name="webhook-act"),
]
