"""What a scheduler's reason for waiting means, and whether the order by priority is the reason; why agents freeze.

Slurm: squeue(1), JOB REASON CODES, of 22.05 to 24.05. Grid Engine gives none: its reason is what the agent finds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.utils.translation import gettext_lazy


@dataclass(frozen=True, slots=True)
class Reason:
    """code: the scheduler's word. is_order: whether jobs that are ahead are the reason."""

    code: str
    key: str
    text: str
    is_order: bool


FROZEN = {
    "snapshot_too_old": gettext_lazy("The priorities are too old."),
    "too_many_unmapped": gettext_lazy("Too many jobs are unmapped."),
    "too_many_changes": gettext_lazy("Too many jobs would change at once."),
    "scheduler_unreadable": gettext_lazy("The scheduler’s answer can’t be read."),
    "server_unreachable": gettext_lazy("This site didn’t answer the agent."),
}
_TEXTS = {
    "priority": gettext_lazy("Jobs with a higher priority are ahead of it."),
    "resources": gettext_lazy("It is next in its partition and waits for free resources."),
    "dependency": gettext_lazy("It waits for another job. Fair share has no influence."),
    "time": gettext_lazy("Its begin time is in the future. Fair share has no influence."),
    "held": gettext_lazy("It is held. Fair share has no influence until it is released."),
    "limit": gettext_lazy("A limit of its account, user or QOS is reached. Fair share has no influence."),
    "partition": gettext_lazy("Its partition doesn’t admit it now. Fair share has no influence."),
    "nodes": gettext_lazy("Nodes that it needs are down or reserved. Fair share has no influence."),
    "licenses": gettext_lazy("It waits for licences. Fair share has no influence."),
    "none": gettext_lazy("The scheduler hasn’t considered it yet."),
    "other": gettext_lazy("The scheduler gives a reason that isn’t about the order of jobs."),
}
_SLURM = (
    ("priority", r"Priority"),
    ("resources", r"Resources"),
    ("dependency", r"Dependency.*|JobArrayTaskLimit"),
    ("time", r"BeginTime|Cleaning"),
    ("held", r"JobHeld.*|Held.*|AdminHold|UserHold"),
    ("limit", r"(?:Assoc|QOS|MaxGRES|Max).*"),
    ("partition", r"Partition.*|InvalidQOS|InvalidAccount|AccountNotAllowed"),
    ("nodes", r"ReqNodeNotAvail.*|NodeDown|Reservation.*|BadConstraints|FrontEndDown|Nodes_required.*"),
    ("licenses", r"Licenses"),
    ("none", r"None|"),
)
_GRIDENGINE = (("priority", r"Priority|"), ("held", r"Held|[uso]?hold.*"), ("dependency", r"Dependency.*"))


def reason_of(kind: str, code: str, *, is_held: bool) -> Reason:
    table = _SLURM if kind == "slurm" else _GRIDENGINE
    key = next((key for key, pattern in table if re.fullmatch(pattern, code)), "other")
    if is_held and key in ("priority", "resources", "none", "other"):
        key = "held"
    return Reason(code, key, str(_TEXTS[key]), key in ("priority", "resources"))
