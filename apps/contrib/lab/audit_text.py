"""Verbs of this plug-in in the audit log."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

SENTENCES = {
    "policy.experiment_made": gettext_lazy("made the experiment %(what)s"),
    "policy.experiment_cancelled": gettext_lazy("cancelled the experiment %(what)s"),
    "policy.experiment_removed": gettext_lazy("removed the experiment %(what)s"),
    "policy.experiment_attached": gettext_lazy("attached the experiment %(what)s to a change set"),
    "policy.experiment_detached": gettext_lazy("detached the experiment %(what)s from a change set"),
    "policy.trace_uploaded": gettext_lazy("uploaded the log %(what)s for experiments"),
    "policy.trace_removed": gettext_lazy("removed the log %(what)s"),
}
