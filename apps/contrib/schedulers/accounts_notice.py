"""The notice of accounts and users that Slurm has otherwise than the policy. Loaded by the plug-in of notices alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence
from apps.contrib.schedulers.following import AssociationChanges, find_changes
from apps.contrib.schedulers.models import Scheduler
from apps.policies.access.managers import manages
from apps.policies.tree.difference import CODES

MOST_PATHS_OF_NOTICE = 3
_WORDS = {
    "added": gettext_lazy("%(n)s new: %(paths)s"),
    "moved": gettext_lazy("%(n)s moved: %(paths)s"),
    "renamed": gettext_lazy("%(n)s renamed: %(paths)s"),
    "archived": gettext_lazy("%(n)s gone: %(paths)s"),
}


def accounts_of_slurm(place: PolicyPlace) -> Iterable[Finding]:
    """Differences of the newest listing of each scheduler whose accounts and users can be followed."""
    for scheduler in Scheduler.objects.filter(policy=place.policy).exclude(mode=Scheduler.Mode.OFF):
        changes = find_changes(scheduler, place.tree)
        if changes is not None and changes.n:
            yield Finding(scheduler.name, "warn", {"scheduler": scheduler.name, "changes": _facts(changes)})


def _facts(changes: AssociationChanges) -> dict[str, Any]:
    return {
        CODES[what]: {"n": n, "paths": list(changes.paths[what][:MOST_PATHS_OF_NOTICE])}
        for what, n in changes.counts.items()
        if n
    }


def accounts_differ(facts: Mapping[str, Any]) -> Sentence:
    parts = []
    for what, each in facts["changes"].items():
        more = "…" if each["n"] > len(each["paths"]) else ""
        parts.append(str(_WORDS[what]) % {"n": each["n"], "paths": ", ".join(each["paths"]) + more})
    text = _("Accounts and users of %(name)s differ from the policy. %(what)s.")
    return Sentence("scheduler_accounts", facts, text % {"name": facts["scheduler"], "what": "; ".join(parts)})


KIND = Kind(
    name="scheduler_accounts",
    title=gettext_lazy("Accounts and users of Slurm that differ"),
    about=gettext_lazy("Slurm has accounts or users that the policy lacks, has elsewhere, or still has."),
    watches="policy",
    find=accounts_of_slurm,
    is_for=lambda reader, notice: notice.policy is not None and manages(notice.policy, reader.actor, reader.at),
    describe=accounts_differ,
    leads_to="scheduler-shares",
)
