"""The proposed policy beside the scheduler's own sshare, as the page shows it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from apps.dashboard.schedulers import differences
from apps.dashboard.shell import presentation
from apps.onboarding.sshare_comparison import SshareComparison


def sshare_context(found: SshareComparison) -> dict[str, Any]:
    usage = found.usage
    return {
        "headline": differences.headline(found.factors),
        "n": len(found.factors.differences),
        "n_equal": found.factors.n_equal,
        "n_unknown": found.factors.n_unknown,
        "lines": differences.difference_lines(found.factors),
        "usage": _usage_words(found),
        "n_usage": usage.n_different,
        "usage_lines": differences.usage_lines(usage),
        "as_of": found.as_of,
    }


def _usage_words(found: SshareComparison) -> str:
    """Both sums, and the quotient where it is the same for all."""
    usage = found.usage
    given = {"ours": presentation.count(usage.ours), "theirs": presentation.count(usage.theirs)}
    text = _("Usage in %(unit)s: %(ours)s from the log, %(theirs)s in sshare.")
    text %= given | {"unit": "billing-s" if found.unit == "billing_s" else "core-s"}
    if usage.quotient is not None:
        text += " " + _("Every user’s is %(quotient)s times sshare’s.") % {
            "quotient": presentation.number(usage.quotient, 4)
        }
    return text
