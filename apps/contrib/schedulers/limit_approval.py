"""Whether a scheduler may set limits of accounts: a second person approved the accounts that its owner named."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.contrib.schedulers.limit_orders import settings_of
from apps.contrib.schedulers.models import Scheduler
from apps.core.errors import Conflict, FieldProblem


def require_approval(scheduler: Scheduler) -> None:
    """Raise Conflict (`second_person_needed`) if no named account is approved, or not that of the canary."""
    settings = settings_of(scheduler)
    if not set(settings.accounts) & set(settings.approved_accounts):
        message = _("A second person has to approve the named accounts first.")
        raise Conflict(message, code="second_person_needed", fields=[FieldProblem("mode", message)])
    if scheduler.mode == Scheduler.Mode.CANARY and settings.canary_account not in settings.approved_accounts:
        message = _("Name the account of the canary among the limits first.")
        raise Conflict(message, code="second_person_needed", fields=[FieldProblem("mode", message)])
