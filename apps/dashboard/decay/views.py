"""Which past usage a policy counts, and its decay: the current decay function, those of schedulers, and the choice."""

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

from apps.analytics.comparison import PolicyAlgorithm, get_algorithm_page
from apps.core import clock
from apps.core.errors import Invalid, NotFound
from apps.dashboard.decay import words as aging_words
from apps.dashboard.drafts import table_views
from apps.dashboard.shell.figure_frames import answer_figure, framed
from apps.dashboard.shell.requests import actor_of
from apps.engine.decay import DECAY_FUNCTIONS
from apps.engine.decay_function import DecayFunction
from apps.engine.parameters import Parameter
from apps.figures import Figure
from apps.figures.curves import decay_of
from apps.policies.settings import PolicySettings

# --- Form -------------------------------------------------------------------------------------------------------------
_LONGEST = 64
_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*(s|min|h|d|w|)", re.ASCII)
_PLACE = "settings.window."


@dataclass(frozen=True, slots=True)
class WindowField:
    """One number of a window, kept as it was typed."""

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
    """What was typed, field by field; `window` when all of it can be used."""

    fields: Sequence[WindowField]
    window: Mapping[str, Any] | None
    error: str = ""
    is_wrong: bool = False


def unbound(law: DecayFunction, settings: PolicySettings) -> WindowForm:
    """With the current values where the decay function has them, else its scheduler's own."""
    window = settings.window
    start = window if window["aging"] == law.name else {**window, **_defaults(law), "aging": law.name}
    texts = {one.name: _typed(one, start.get(one.name, one.default)) for one in _own(law)}
    fields = _fields(law, {"length_s": _typed_duration(window["length_s"]), **texts}, {})
    try:
        read = PolicySettings.from_json({"window": _of_law(law, start)}, base=settings).window
    except Invalid:  # linear aging of a window without an end
        read = None
    return WindowForm(fields, read)


def bound(law: DecayFunction, settings: PolicySettings, data: Mapping[str, Any]) -> WindowForm:
    """As somebody typed it; an empty length is no limit, another empty field the scheduler's own value."""
    names = ("length_s", *(one.name for one in _own(law)))
    texts = {name: str(data.get(name, "")).strip()[:_LONGEST] for name in names}
    given: dict[str, Any] = {"aging": law.name, "length_s": None, **_defaults(law)}
    for name, text in texts.items():
        if text:
            given[name] = _read_duration(text) if name.endswith("_s") else _read_number(text)
    try:
        read = PolicySettings.from_json({"window": given}, base=settings).window
    except Invalid as refusal:
        errors = {problem.where.removeprefix(_PLACE): problem.message for problem in refusal.fields}
        other = "" if set(errors) & set(texts) else refusal.message
        return WindowForm(_fields(law, texts, errors), None, other, is_wrong=True)
    return WindowForm(_fields(law, texts, {}), read)


def _of_law(law: DecayFunction, window: Mapping[str, Any]) -> dict[str, Any]:
    names = {"aging", "length_s", *(one.name for one in law.parameters)}
    return {name: value for name, value in window.items() if name in names}


def _fields(law: DecayFunction, texts: Mapping[str, str], errors: Mapping[str, str]) -> list[WindowField]:
    return [_field(one, texts[one.name if one else "length_s"], errors) for one in (None, *_own(law))]


def _own(law: DecayFunction) -> list[Parameter]:
    """The parameters beside the window's length, which every law has."""
    return [parameter for parameter in law.parameters if parameter.name != "length_s"]


def _defaults(law: DecayFunction) -> dict[str, Any]:
    return {one.name: one.default for one in _own(law) if one.default is not None}


def _field(parameter: Parameter | None, value: str, errors: Mapping[str, str]) -> WindowField:
    name = parameter.name if parameter else "length_s"
    if parameter is None:
        label, hint = _("Length of the window"), _("Such as 90 d, 36 h or 600 s; leave empty for no limit")
    else:
        label = parameter.label
        hint = _("Such as 7 d, 36 h or 600 s") if parameter.unit == "s" else parameter.allowed.capitalize()
        if parameter.unit == "h":
            hint = _("Hours; 0 for no decay")
    error = errors.get(name, "")
    return WindowField(name, label, value, hint, error[:1].upper() + error[1:] + "." if error else "")


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
    """Seconds; what is no duration stays text, for the settings to refuse."""
    match = _DURATION.fullmatch(text.replace("\u00a0", " "))
    if match is None:
        return text
    seconds = float(match[1].replace(",", ".")) * _SECONDS[match[2]]
    return int(seconds) if seconds.is_integer() else seconds


def _read_number(text: str) -> Any:
    plain = text.replace(",", ".")
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", plain, re.ASCII) is None:
        return text
    return float(plain)


# --- Views ------------------------------------------------------------------------------------------------------------
@require_safe
def decay(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The figure of the page, for the page's own query."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    return answer_figure(request, _decay(request, current), form)


@require_http_methods(["GET", "HEAD", "POST"])
def aging(request: HttpRequest, policy: str) -> HttpResponse:
    """`?aging=` shows a law that isn't in force; POST first shows what it leaves, then publishes it."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    if request.method == "POST":
        return _decide(request, current)
    own = str(current.settings.window["aging"])
    usual = own if own in DECAY_FUNCTIONS else "none"  # its package isn't installed any more: another one is chosen
    return _show(request, current, _known(request.GET.get("aging") or usual))


def _decide(request: HttpRequest, current: PolicyAlgorithm) -> HttpResponse:
    law = _known(request.POST.get("aging", ""))
    form = bound(law, current.settings, request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        return _show(request, current, law, status=status, form=form, **more)

    back = reverse("dashboard:aging", kwargs={"policy": current.policy_slug})
    return table_views.decide(request, current.policy_slug, "window", form.window, show=show, back=back)


def _show(
    request: HttpRequest, current: PolicyAlgorithm, law: DecayFunction, *, status: int = 200, **more: Any
) -> HttpResponse:
    window = current.settings.window
    form = more.pop("form", None) or unbound(law, current.settings)
    tree = reverse("dashboard:policy", kwargs={"policy": current.policy_slug})
    context = {
        "found": current,
        "window": window,
        "chosen": law,
        "laws": aging_words.list_laws(),
        "decay": framed(
            request,
            reverse("dashboard:aging-decay", kwargs={"policy": current.policy_slug}),
            lambda: _decay(request, current),
        ),
        "is_other": law.name != window["aging"],
        "left": aging_words.left_after(window, form.window, clock.now().timestamp()),
        "is_changed": form.window is not None and dict(form.window) != window,
        "form": form,
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "crumbs": [{"label": current.policy_name, "url": tree}, {"label": _("Usage window")}],
        **more,
    }
    return render(request, "dashboard/decay/aging.html", context, status=status)


def _decay(request: HttpRequest, current: PolicyAlgorithm) -> Figure:
    return decay_of(current.settings, current.policy_slug, request.GET, as_of_s=clock.now().timestamp())


def _known(name: str) -> DecayFunction:
    if name not in DECAY_FUNCTIONS:
        raise NotFound(_("Unknown decay function."))
    return DECAY_FUNCTIONS[name]
