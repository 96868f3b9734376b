"""Why usage differs from the scheduler's, in words, with what to do about it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy

from apps.contrib.onboarding.usage_differences import UsageReason

USAGE_REASONS: dict[UsageReason, Any] = {
    "config_unknown": gettext_lazy(
        "Slurm’s configuration is not known: add scontrol show config, scontrol show partition and sacctmgr -P show qos"
    ),
    "qos_unknown": gettext_lazy(
        "jobs with a QOS whose UsageFactor is not known: add sacctmgr -P show qos format=Name,UsageFactor"
    ),
    "weights_unknown": gettext_lazy("TRESBillingWeights are not known: add scontrol show partition"),
    "running_left_out": gettext_lazy("running jobs, which Slurm charges: the approach active counts them"),
    "decay": gettext_lazy("another half-life than PriorityDecayHalfLife"),
    "billing_cut": gettext_lazy(
        "billing cut to whole numbers in the records: import the log again with Slurm’s configuration"
    ),
    "all_alike": gettext_lazy("all by the same factor: another instant, or other weights of resources"),
    "removed_limits": gettext_lazy("Slurm loses the end of each job: AccountingStorageEnforce lacks limits"),
    "reset": gettext_lazy("Slurm’s usage was reset, or the association is new"),
    "running": gettext_lazy("a job is running: the log has it when it ends"),
    "earlier": gettext_lazy("the log begins too late for jobs that still count"),
    "longer": gettext_lazy("the log has more than Slurm charged"),
    "shorter": gettext_lazy("jobs are missing from the log"),
    "same": gettext_lazy("equal"),
}
