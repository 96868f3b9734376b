"""The notice of advice that became another one. Loaded by the plug-in of notices alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.lab.models import PolicyAdvice
from apps.contrib.notices.kind import Finding, Kind, PolicyPlace, Sentence, Term
from apps.policies.access.managers import manages

SUBJECTS = {
    "operator": gettext_lazy("Operator"),
    "resolution": gettext_lazy("Resolution"),
    "half_life": gettext_lazy("Half-life"),
    "algorithm": gettext_lazy("Algorithm"),
}


def find_changed_advice(place: PolicyPlace) -> Iterable[Finding]:
    """The last change of the recommendation, for some days. The first advice is none."""
    row = PolicyAdvice.objects.filter(policy=place.policy).first()
    if row is None or row.changed_at is None:
        return
    if not row.changed_at <= place.at < row.changed_at + timedelta(days=place.terms["days"]):
        return
    changes = [
        {"subject": subject, "before": row.before_change.get(subject, ""), "after": row.recommended.get(subject, "")}
        for subject in SUBJECTS
        if row.before_change.get(subject) != row.recommended.get(subject)
    ]
    yield Finding(row.changed_at.isoformat(), "info", {"policy": place.policy.slug, "changes": changes})


def describe_changed_advice(facts: Mapping[str, Any]) -> Sentence:
    changes = "; ".join(
        _("%(what)s: %(after)s instead of %(now)s")
        % {"what": SUBJECTS[each["subject"]], "after": each["after"] or "–", "now": each["before"] or "–"}
        for each in facts["changes"]
    )
    text = _("The advice for %(policy)s is another one now: %(changes)s.")
    return Sentence("advice_changed", facts, text % {"policy": facts["policy"], "changes": changes})


def is_manager(reader: Any, notice: Any) -> bool:
    """Managers of the whole policy."""
    return notice.policy is not None and manages(notice.policy, reader.actor, reader.at)


CHANGED = Kind(
    name="advice_changed",
    title=gettext_lazy("Changed advice"),
    about=gettext_lazy("The advice for operator, resolution, half-life and algorithm is another one than before."),
    watches="policy",
    find=find_changed_advice,
    is_for=is_manager,
    describe=describe_changed_advice,
    leads_to="algorithm",
    terms=(Term("days", gettext_lazy("Shown for"), gettext_lazy("days"), 30, 1, 366),),
)
