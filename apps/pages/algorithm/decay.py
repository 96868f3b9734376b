"""Which past usage a policy counts: usage windows and decay functions as text, and the form to choose them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Invalid, NotFound, problem_sentence
from apps.engine.decay import weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.parameters import Parameter
from apps.pages.algorithm.choice import number_or_text
from apps.pages.algorithm.comparison import PolicyAlgorithm, get_algorithm_page
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.web import settings_change
from apps.web.figures import Figure
from apps.web.figures.curves import policy_decay_figure
from apps.web.shell import presentation
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.requests import actor_of

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
SHOWN_AGES_S = (HOUR_S, 5 * HOUR_S, DAY_S, 3 * DAY_S, 7 * DAY_S, 14 * DAY_S, 28 * DAY_S, 90 * DAY_S)


@dataclass(frozen=True, slots=True)
class RemainingUsage:
    """Weight of usage of this age under the active decay and under the shown one."""

    age: str
    active: str
    chosen: str


def list_decay_functions() -> Sequence[DecayFunction]:
    return tuple(DECAY_FUNCTIONS.values())


def remaining_by_age(
    active: Mapping[str, Any], chosen: Mapping[str, Any] | None, as_of_s: float
) -> list[RemainingUsage]:
    """Percent left by age; decay functions with fixed instants as of now. Empty if one isn’t known."""
    try:
        columns = [weights(SHOWN_AGES_S, window_of(window), as_of_s) for window in (active, chosen or active)]
    except Invalid:
        return []
    return [
        RemainingUsage(presentation.duration(age), _percent(float(old)), _percent(float(new)))
        for age, old, new in zip(SHOWN_AGES_S, *columns, strict=True)
    ]


def _percent(weight: float) -> str:
    return presentation.percent(weight)


_FINE = 0.01  # of usage: less is not worth a sentence


def hourly_error(window: Mapping[str, Any]) -> float | None:
    """How much usage at most differs because it counts by the hour and not by the second; None below 1 %."""
    try:
        found = window_of(window)
        error = 0.0 if found.charges_by_period else 1.0 - float(weights(HOUR_S, found))
    except Invalid:
        return None
    return error if error > _FINE else None


_LONGEST = 64
_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*(s|min|h|d|w|)", re.ASCII)
_PLACE = "settings.window."


@dataclass(frozen=True, slots=True)
class WindowField:
    """One number of a usage window, as typed."""

    name: str
    label: str
    value: str
    hint: str
    error: str = ""

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"


@dataclass(frozen=True)
class WindowForm:
    """The typed values by field. window: set if all are valid."""

    fields: Sequence[WindowField]
    window: Mapping[str, Any] | None
    error: str = ""
    is_wrong: bool = False


def unbound(function: DecayFunction, settings: PolicySettings) -> WindowForm:
    """Form with the active values if the decay function has them, else with its scheduler's defaults."""
    window = settings.window
    start = window if window["aging"] == function.name else {**window, **_defaults(function), "aging": function.name}
    texts = {one.name: _typed(one, start.get(one.name, one.default)) for one in _own(function)}
    fields = _fields(function, {"length_s": _typed_duration(window["length_s"]), **texts}, {})
    try:
        read = PolicySettings.from_json({"window": _window_of(function, start)}, base=settings).window
    except Invalid:  # linear decay needs a window with an end
        read = None
    return WindowForm(fields, read)


def bound(function: DecayFunction, settings: PolicySettings, data: Mapping[str, Any]) -> WindowForm:
    """Form with the typed values; an empty length is no limit, other empty fields get the scheduler's default."""
    names = ("length_s", *(one.name for one in _own(function)))
    texts = {name: str(data.get(name, "")).strip()[:_LONGEST] for name in names}
    given: dict[str, Any] = {"aging": function.name, "length_s": None, **_defaults(function)}
    for name, text in texts.items():
        if text:
            given[name] = _read_duration(text) if name.endswith("_s") else number_or_text(text)
    try:
        read = PolicySettings.from_json({"window": given}, base=settings).window
    except Invalid as refusal:
        errors = {problem.where.removeprefix(_PLACE): problem.message for problem in refusal.fields}
        other = "" if set(errors) & set(texts) else refusal.message
        return WindowForm(_fields(function, texts, errors), None, other, is_wrong=True)
    return WindowForm(_fields(function, texts, {}), read)


def _window_of(function: DecayFunction, window: Mapping[str, Any]) -> dict[str, Any]:
    names = {"aging", "length_s", *(one.name for one in function.parameters)}
    return {name: value for name, value in window.items() if name in names}


def _fields(function: DecayFunction, texts: Mapping[str, str], errors: Mapping[str, str]) -> list[WindowField]:
    return [_field(one, texts[one.name if one else "length_s"], errors) for one in (None, *_own(function))]


def _own(function: DecayFunction) -> list[Parameter]:
    """Parameters other than the window's length, which every decay function has."""
    return [parameter for parameter in function.parameters if parameter.name != "length_s"]


def _defaults(function: DecayFunction) -> dict[str, Any]:
    return {one.name: one.default for one in _own(function) if one.default is not None}


def _field(parameter: Parameter | None, value: str, errors: Mapping[str, str]) -> WindowField:
    name = parameter.name if parameter else "length_s"
    if parameter is None:
        label, hint = _("Window"), _("Such as 7 d, 36 h or 600 s; leave empty for no limit")
    else:
        label = parameter.label
        hint = {
            "s": _("Such as 7 d, 36 h or 600 s"),
            "h": _("0 for no decay"),
        }.get(parameter.unit, _("Allowed: %(values)s") % {"values": parameter.allowed})
    error = errors.get(name, "")
    return WindowField(name, label, value, hint, problem_sentence(error))


def _typed(parameter: Parameter, value: Any) -> str:
    if value is None:
        return ""
    return _typed_duration(value) if parameter.unit == "s" else f"{value:.12g}"


def _typed_duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit in ("d", "h", "min"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]:.0f} {unit}"
    return f"{seconds:.12g} s"


def _read_duration(text: str) -> Any:
    """Seconds; text that isn't a duration is returned for the settings to reject."""
    match = _DURATION.fullmatch(text.replace("\u00a0", " "))
    if match is None:
        return text
    seconds = float(match[1].replace(",", ".")) * _SECONDS[match[2]]
    return int(seconds) if seconds.is_integer() else seconds


@require_safe
def figure(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The figure for the page's query."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    return answer_figure(request, _decay(request, current), form)


@require_http_methods(["GET", "HEAD", "POST"])
def decay(request: HttpRequest, policy: str) -> HttpResponse:
    """`?aging=` shows a decay function that isn't active. POST first previews it, then publishes it."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    if request.method == "POST":
        return _decide(request, current)
    own = str(current.settings.window["aging"])
    usual = own if own in DECAY_FUNCTIONS else "none"  # a package brought it to an earlier version
    return _show(request, current, _known(request.GET.get("aging") or usual))


def _decide(request: HttpRequest, current: PolicyAlgorithm) -> HttpResponse:
    function = _known(request.POST.get("aging", ""))
    form = bound(function, current.settings, request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        return _show(request, current, function, status=status, form=form, **more)

    back = reverse("dashboard:decay", kwargs={"policy": current.policy_slug})
    return settings_change.decide(request, current.policy_slug, "window", form.window, show=show, back=back)


def _show(
    request: HttpRequest, current: PolicyAlgorithm, function: DecayFunction, *, status: int = 200, **more: Any
) -> HttpResponse:
    window = current.settings.window
    form = more.pop("form", None) or unbound(function, current.settings)
    tree = reverse("dashboard:policy", kwargs={"policy": current.policy_slug})
    context = {
        "found": current,
        "window": window,
        "chosen": function,
        "functions": list_decay_functions(),
        "decay": framed(
            request,
            reverse("dashboard:decay-figure", kwargs={"policy": current.policy_slug}),
            lambda: _decay(request, current),
        ),
        "is_other": function.name != window["aging"],
        "left": remaining_by_age(window, form.window, clock.now().timestamp()),
        "hourly_error": hourly_error(form.window or window),
        "is_changed": form.window is not None and dict(form.window) != window,
        "form": form,
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "crumbs": [{"label": current.policy_name, "url": tree}, {"label": _("Usage window")}],
        **more,
    }
    return render(request, "pages/algorithm/decay/decay.html", context, status=status)


def _decay(request: HttpRequest, current: PolicyAlgorithm) -> Figure:
    return policy_decay_figure(current.settings, current.policy_slug, request.GET, as_of_s=clock.now().timestamp())


def _known(name: str) -> DecayFunction:
    if name not in DECAY_FUNCTIONS:
        raise NotFound(_("Not found"))
    return DECAY_FUNCTIONS[name]
