"""Forms to connect a scheduler, to make the token of its agent, and to change its settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import LIMITS, orders_of
from apps.pages.tokens.forms import ConfirmForm
from apps.policies.models import Policy
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, choice_field, name_field

HOURLY = "hourly"
KNOBS = (
    ("sitefactor", gettext_lazy("Site factor (Slurm)")),
    ("nice", format_lazy("{} (Slurm)", gettext_lazy("Nice value"))),
    ("priority", format_lazy("{} (Slurm, Grid Engine)", gettext_lazy("Priority"))),
    ("override_tickets", gettext_lazy("Override tickets (Grid Engine)")),
    ("priority_factor", gettext_lazy("Priority factor (HTCondor)")),
)
_HELP = {
    "namespace": gettext_lazy("Same as in the usage sources. Leave empty for any."),
    "partitions": gettext_lazy("Comma-separated. Leave empty for all."),
    "subtree": gettext_lazy("Jobs of other entries are not changed."),
    "weight": gettext_lazy("Value sent for a factor of 1."),
    "step": gettext_lazy("Smaller changes are not sent."),
    "updates_per_min": gettext_lazy("Jobs that get another value. The front of the queue comes first."),
    "carries": gettext_lazy("Shares: the scheduler computes fair share. Limits: it stops used-up projects."),
    "follows": gettext_lazy("A draft each hour, if they differ. Published shares stay."),
    "mode": gettext_lazy("Shadow reads and compares. Canary sends to one partition."),
    "snapshot_age_s": gettext_lazy("Above this limit, the agent freezes."),
    "unmapped_percent": gettext_lazy("Above this limit, the agent freezes."),
    "changed_percent": gettext_lazy("Above this limit, the agent freezes, unless newer priorities explain it."),
}
_LABELS = {
    "name": gettext_lazy("Short name"),
    "namespace": gettext_lazy("User namespace"),
    "partitions": gettext_lazy("Partitions or queues"),
    "subtree": gettext_lazy("Subtree"),
    "weight": gettext_lazy("Weight"),
    "step": gettext_lazy("Step"),
    "canary_partition": gettext_lazy("Canary partition"),
    "follows": gettext_lazy("Propose Slurm’s accounts and users"),
    "every_s": gettext_lazy("Interval (seconds)"),
    "snapshot_age_s": gettext_lazy("Maximum age of priorities (seconds)"),
    "unmapped_percent": gettext_lazy("Maximum unmapped jobs (%)"),
    "changed_percent": gettext_lazy("Maximum changed jobs (%)"),
    "calls_per_s": gettext_lazy("Maximum commands per second"),
    "updates_per_min": gettext_lazy("Maximum updates per minute"),
}
FOLLOWS = (("", gettext_lazy("By hand")), (HOURLY, gettext_lazy("Each hour")))
ADVANCED = (
    "weight", "step", "canary_partition", "mode", "carries", "knob", "subtree", "partitions", "namespace", "reach",
    "every_s", "follows",
)  # fmt: skip
SENT = ("carries", "mode", "canary_partition", "knob", "weight", "step", "subtree", "partitions", "every_s", "follows")
ABOUT = ("kind", "reach", "namespace")
BOUNDS = tuple(LIMITS)
USUAL_KNOB = ("", gettext_lazy("The usual one"))


def _text(name: str, *, required: bool = False) -> forms.CharField:
    return name_field(_LABELS[name], bounds.ENTRY, _HELP.get(name, ""), required=required)


def _whole(name: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "input", "min": "0"})
    return forms.IntegerField(label=_LABELS[name], help_text=_HELP.get(name, ""), widget=widget)


class SchedulerForm(RefusableForm):
    """Settings of a scheduler. policies: choices for a new scheduler; empty when an existing one is changed."""

    def __init__(self, *args: Any, policies: list[Policy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if policies:
            self.fields["name"] = _text("name", required=True)
            self.fields["policy"] = choice_field(
                gettext_lazy("Policy"), [(policy.slug, policy.name) for policy in policies]
            )
        self.fields["kind"] = choice_field(gettext_lazy("Scheduler"), Scheduler.Kind.choices)
        self.fields["reach"] = choice_field(gettext_lazy("Reached by"), Scheduler.Reach.choices)
        self.fields["namespace"] = _text("namespace")
        self.fields["carries"] = choice_field(
            gettext_lazy("Sends"), Scheduler.Carries.choices, _HELP["carries"], required=False
        )
        self.fields["mode"] = choice_field(gettext_lazy("Mode"), Scheduler.Mode.choices, _HELP["mode"])
        self.fields["canary_partition"] = _text("canary_partition")
        self.fields["knob"] = choice_field(gettext_lazy("Scheduler setting"), KNOBS)
        for name in ("weight", "step"):
            self.fields[name] = _whole(name)
        for name in ("subtree", "partitions"):
            self.fields[name] = _text(name, required=name == "subtree")
        for name in ("every_s", *BOUNDS):
            self.fields[name] = _whole(name)
        self.fields["follows"] = choice_field(_LABELS["follows"], FOLLOWS, _HELP["follows"], required=False)

    def settings(self) -> dict[str, Any]:
        """Settings in the form of the scheduler services."""
        typed = dict(self.cleaned_data)
        typed.pop("name", None)
        typed.pop("policy", None)
        typed["carries"] = typed["carries"] or Scheduler.Carries.PRIORITIES
        names = [partition.strip() for partition in typed["partitions"].split(",") if partition.strip()]
        typed["partitions"] = names or None
        typed["follows"] = typed["follows"] == HOURLY
        typed = {name: value for name, value in typed.items() if name != "knob" or value}
        typed["limits"] = {name: typed.pop(name) for name in BOUNDS}
        return typed

    def form_field(self, where: str) -> str:
        return where.removeprefix("limits.")


class ConnectForm(SchedulerForm):
    """A new scheduler: its kind and name; all else has defaults. confirms: also makes its agent's token."""

    def __init__(self, *args: Any, policies: list[Policy], confirms: bool, asks_password: bool, **kwargs: Any) -> None:
        super().__init__(*args, policies=policies, **kwargs)
        self.fields["kind"].widget = forms.RadioSelect(choices=Scheduler.Kind.choices)
        self.fields["knob"] = choice_field(gettext_lazy("Scheduler setting"), (USUAL_KNOB, *KNOBS), required=False)
        for name in (*SENT, *BOUNDS, "reach", "namespace"):
            self.fields[name].required = False
        if len(policies) == 1:
            self.fields["policy"].widget = forms.HiddenInput()
        if confirms:
            self.fields |= ConfirmForm(asks_password=asks_password).fields
            if asks_password:
                self.fields["password"].help_text = gettext_lazy("For the token that the next step shows.")

    def settings(self) -> dict[str, Any]:
        """Those that were typed; the others keep their defaults."""
        defaults = default_values()
        for name, value in self.cleaned_data.items():
            if value in (None, "") and defaults.get(name) not in (None, ""):
                self.cleaned_data[name] = defaults[name] if name != "knob" else ""
        for name in ("password", "ticket"):
            self.cleaned_data.pop(name, None)
        return super().settings()

    @property
    def has_advanced_errors(self) -> bool:
        return any(name in self.errors for name in (*ADVANCED, *BOUNDS))


def initial_of(scheduler: Scheduler) -> dict[str, Any]:
    orders = orders_of(scheduler)
    partitions = ", ".join(orders["partitions"] or [])
    follows = HOURLY if scheduler.follows else ""
    own = {"partitions": partitions, "namespace": scheduler.namespace, "follows": follows}
    return {**orders, **orders["limits"], **own}


def default_values() -> dict[str, Any]:
    """Initial values for a new scheduler, in shadow mode so that nothing is sent to it."""
    blank = Scheduler(knob="sitefactor", mode=Scheduler.Mode.SHADOW)
    return {name: getattr(blank, name) for name in (*SENT, *BOUNDS, "kind", "reach") if hasattr(blank, name)} | {
        "subtree": "/",
        "partitions": "",
        "follows": "",
    }
