"""A scheduler as a manager connects it: how it is reached, what is sent to it, and where its agent stops by itself."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError, Stale
from apps.policies.models import Policy
from apps.schedulers.models import Scheduler
from apps.schedulers.orders import LIMITS, orders_of

KNOBS = (
    ("sitefactor", _("Site factor (Slurm)")),
    ("nice", _("Nice value (Slurm)")),
    ("priority", _("Priority (Slurm, Grid Engine)")),
    ("override_tickets", _("Override tickets (Grid Engine)")),
)
_HELP = {
    "namespace": _("Of its user names, as usage sources have it. Leave empty for any."),
    "partitions": _("Comma-separated. Leave empty for all."),
    "subtree": _("Jobs of other entries are left alone."),
    "weight": _("What a factor of 1 becomes."),
    "step": _("Smaller changes are not sent."),
    "carries": _("Shares: for a scheduler that keeps its own fair share."),
    "mode": _("Shadow reads and compares. Canary sends to one partition."),
    "snapshot_age_s": _("Older priorities freeze the agent."),
    "unmapped_percent": _("More unmapped jobs freeze it."),
    "changed_percent": _("More changes at once freeze it."),
}
_LABELS = {
    "name": _("Short name"),
    "namespace": _("Namespace of user names"),
    "partitions": _("Partitions or queues"),
    "subtree": _("Subtree"),
    "weight": _("Weight"),
    "step": _("Step"),
    "canary_partition": _("Canary partition"),
    "every_s": _("Interval (seconds)"),
    "snapshot_age_s": _("Age of priorities at most (seconds)"),
    "unmapped_percent": _("Unmapped jobs at most (%)"),
    "changed_percent": _("Changed jobs at most (%)"),
    "calls_per_s": _("Commands per second at most"),
}
ABOUT = ("name", "policy", "kind", "reach", "namespace")
SENT = ("carries", "mode", "canary_partition", "knob", "weight", "step", "subtree", "partitions", "every_s")
BOUNDS = tuple(LIMITS)


def _text(name: str, *, required: bool = False) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(
        label=_LABELS[name], required=required, help_text=_HELP.get(name, ""), max_length=9_000, widget=widget
    )


def _whole(name: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "input", "min": "0"})
    return forms.IntegerField(label=_LABELS[name], help_text=_HELP.get(name, ""), widget=widget)


def _choice(label: Any, choices: Any, help_text: Any = "") -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label, choices=choices, help_text=help_text, widget=forms.Select(attrs={"class": "input"})
    )


class SchedulerForm(forms.Form):
    """policies: where a new one may be connected; none where one is changed."""

    is_stale = False

    def __init__(self, *args: Any, policies: list[Policy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if policies:
            self.fields["name"] = _text("name", required=True)
            self.fields["policy"] = _choice(_("Policy"), [(one.slug, one.name) for one in policies])
        self.fields["kind"] = _choice(_("Scheduler"), Scheduler.Kind.choices)
        self.fields["reach"] = _choice(_("Reached by"), Scheduler.Reach.choices)
        self.fields["namespace"] = _text("namespace")
        self.fields["carries"] = _choice(_("Carries"), Scheduler.Carries.choices, _HELP["carries"])
        self.fields["carries"].required = False
        self.fields["mode"] = _choice(_("Mode"), Scheduler.Mode.choices, _HELP["mode"])
        self.fields["canary_partition"] = _text("canary_partition")
        self.fields["knob"] = _choice(_("Value that is set"), KNOBS)
        for name in ("weight", "step"):
            self.fields[name] = _whole(name)
        for name in ("subtree", "partitions"):
            self.fields[name] = _text(name, required=name == "subtree")
        for name in ("every_s", *BOUNDS):
            self.fields[name] = _whole(name)

    def given(self) -> dict[str, Any]:
        """As the room of schedulers takes it."""
        typed = dict(self.cleaned_data)
        typed.pop("name", None)
        typed.pop("policy", None)
        typed["carries"] = typed["carries"] or Scheduler.Carries.PRIORITIES
        names = [one.strip() for one in typed["partitions"].split(",") if one.strip()]
        typed["partitions"] = names or None
        typed["limits"] = {name: typed.pop(name) for name in BOUNDS}
        return typed

    def add_refusal(self, error: DomainError) -> None:
        self.is_stale = isinstance(error, Stale)
        for problem in error.fields:
            where = problem.where.removeprefix("limits.")
            told = forms.ValidationError(problem.message, code=error.code)
            self.add_error(where if where in self.fields else None, told)
        if not error.fields:
            self.add_error(None, forms.ValidationError(error.message, code=error.code))


def initial_of(scheduler: Scheduler) -> dict[str, Any]:
    orders = orders_of(scheduler)
    partitions = ", ".join(orders["partitions"] or [])
    return {**orders, **orders["limits"], "partitions": partitions, "namespace": scheduler.namespace}


def first_values() -> dict[str, Any]:
    """What a new one begins with: nothing is sent."""
    blank = Scheduler(knob="sitefactor", mode=Scheduler.Mode.SHADOW)
    return {name: getattr(blank, name) for name in (*SENT, *BOUNDS, "kind", "reach") if hasattr(blank, name)} | {
        "subtree": "/",
        "partitions": "",
    }
