"""Why usage differs from the scheduler's, in words, with what to do about it."""

from __future__ import annotations

from typing import Any

from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent.site_commands import OF_SETTINGS, PARTITIONS, QOS, listed, text_of
from apps.contrib.onboarding.usage_differences import Hint, UsageDifference, UsageReason
from apps.priorities.sentences import numbers

_ADD_QOS = text_of(QOS)
USAGE_REASONS: dict[UsageReason, Any] = {
    "qos_unknown": format_lazy(
        gettext_lazy("jobs with a QOS whose UsageFactor is not known: add {command}"), command=_ADD_QOS
    ),
    "running_left_out": gettext_lazy("running jobs, which Slurm charges: the approach active counts them"),
    "decay": gettext_lazy("another half-life than PriorityDecayHalfLife"),
    "removed_limits": gettext_lazy("Slurm loses the end of each job: AccountingStorageEnforce lacks limits"),
    "all_alike": gettext_lazy("all by the same factor: another instant, or other weights of resources"),
    "from_zero": gettext_lazy(
        "Slurm counts none of these jobs: the association was made after them, also again, or its usage was reset"
    ),
    "same": gettext_lazy("equal"),
}
HINTS: dict[Hint, Any] = {
    "config_unknown": format_lazy(
        gettext_lazy("Slurm’s configuration is not known: add {commands}."), commands=listed(*OF_SETTINGS)
    ),
    "qos_unknown": format_lazy(gettext_lazy("The UsageFactor of a QOS is not known: add {command}."), command=_ADD_QOS),
    "weights_unknown": format_lazy(
        gettext_lazy("TRESBillingWeights are not known: add {command}."), command=text_of(PARTITIONS)
    ),
    "billing_cut": gettext_lazy(
        "Records have billing in whole numbers: if they were imported before Slurm’s configuration, import them again."
    ),
    "no_limits": gettext_lazy("AccountingStorageEnforce lacks limits: Slurm loses the end of each job."),
    "running": gettext_lazy("A job of this user is running."),
    "log_begins_late": gettext_lazy("The log is shorter than ten half-lives: older usage may still count in Slurm."),
}


def reason_text(row: UsageDifference, unit: str) -> str:
    """The reason of a difference; for an unexplained one its number, and what is not known. unit: as in the policy."""
    if row.reason != "unexplained":
        return str(USAGE_REASONS[row.reason])
    values = {"n": numbers.count(abs(row.difference)), "unit": "billing-s" if unit == "billing_s" else "core-s"}
    texts = [_("unexplained: %(n)s %(unit)s.") % values, *(str(HINTS[hint]) for hint in row.hints)]
    return " ".join(texts)
