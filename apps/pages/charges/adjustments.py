"""Pages to credit or charge usage to an entry: preview, publish, list and revoke adjustments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, status_of
from apps.core.typed_numbers import AmbiguousNumber, read_number, read_whole
from apps.policies.tree.columns import TreeColumns
from apps.priorities.adjustments import (
    AdjustmentLine,
    AdjustmentPreview,
    AdjustmentsPage,
    EntryNumbers,
    get_adjustments_page,
    preview_adjustment,
)
from apps.priorities.sentences import unit_of
from apps.web.shell import lines, presentation, publishing
from apps.web.shell.forms import (
    RefusableForm,
    choice_field,
    date_input,
    published_reason_field,
    read_action,
    text_input,
)
from apps.web.shell.presentation import Balance, signed_hours
from apps.web.shell.requests import actor_of, fragment

RESOURCES = (
    ("cpu_s", gettext_lazy("core-hours")),
    ("gpu_s", gettext_lazy("GPU-hours")),
    ("mem_gb_s", gettext_lazy("GB-hours")),
    ("node_s", gettext_lazy("node-hours")),
    ("billing", gettext_lazy("billing-hours")),
)
_HOURS = [("", gettext_lazy("whole day")), *((str(hour), f"{hour:02}:00") for hour in range(24))]
_MOST_H = 1e14


class AdjustmentForm(RefusableForm):
    """An amount in hours of a resource, above 0; `direction`: credit it to the entry or charge it."""

    direction = forms.ChoiceField(
        label=gettext_lazy("Direction"),
        choices=[("back", gettext_lazy("Credit")), ("add", gettext_lazy("Charge"))],
        initial="back",
        widget=forms.RadioSelect,
    )
    amount = forms.CharField(label=gettext_lazy("Amount"), max_length=40, widget=text_input(inputmode="decimal"))
    resource = choice_field(gettext_lazy("Unit"), RESOURCES, initial="cpu_s")
    day = forms.DateField(label=gettext_lazy("Date"), widget=date_input())
    hour = choice_field(gettext_lazy("Hour"), _HOURS, required=False)
    note = forms.CharField(label=gettext_lazy("Note"), required=False, max_length=512, widget=text_input())
    reason = published_reason_field(required=False)

    def clean_amount(self) -> float:
        try:
            amount = read_number(str(self.cleaned_data["amount"]))
        except AmbiguousNumber as error:
            raise forms.ValidationError(str(error), code="number") from None
        except ValueError:
            amount = 0.0
        if not 0 < amount <= _MOST_H:
            raise forms.ValidationError(gettext_lazy("Enter a number above 0, such as 20 or 0.5."), code="number")
        return amount

    @property
    def amount_s(self) -> float:
        sign = -1.0 if self.cleaned_data["direction"] == "back" else 1.0
        return sign * float(self.cleaned_data["amount"]) * 3600.0

    def used_at(self, now: datetime) -> datetime:
        """The chosen hour in the page's time zone; noon for a whole day, or `now` if that is earlier today."""
        day, hour = self.cleaned_data["day"], self.cleaned_data["hour"]
        at = timezone.make_aware(datetime.combine(day, time(int(hour) if hour else 12)))
        is_today = timezone.localtime(now).date() == day
        return min(at, now) if not hour and is_today else at

    def operation(self, entry: UUID, now: datetime) -> dict[str, Any]:
        return {
            "op": "adjust_usage",
            "entry": str(entry),
            "resource": self.cleaned_data["resource"],
            "amount_s": self.amount_s,
            "at": self.used_at(now).isoformat(),
            "note": self.cleaned_data["note"].strip(),
        }

    @property
    def stated(self) -> str:
        """The values as text; the page posts it back, so that changed values are previewed before publishing."""
        names = ("direction", "amount", "resource", "day", "hour")
        return "|".join(str(self.cleaned_data.get(name, "")) for name in names)

    @property
    def is_previewed(self) -> bool:
        return self.data.get("previewed") == self.stated


@dataclass(frozen=True, slots=True)
class AdjustmentRow:
    """One adjustment as shown. `where`: here, above or below the entry of the page."""

    uid: UUID
    amount: str
    unit: str
    counted: str
    used_at: datetime
    at: datetime
    note: str
    reason: str
    author: str
    path: str
    url: str
    where: str
    is_active: bool
    may_revoke: bool


def draw(page: AdjustmentsPage) -> dict[str, Any]:
    """Context of the page of adjustments and of the card on the entry's page."""
    view, i = page.view, page.entry
    drawn = [_line(line, view.tree, i, view.policy.slug) for line in page.lines]
    entry = view.row(i)
    return {
        "page": page,
        "entry": entry,
        "policy": view.policy.slug,
        "uid": entry.uid,
        "entry_url": lines.entry_url(view.policy.slug, entry.uid, entry.name),
        "adjustments": drawn,
        "active": [one for one in drawn if one.is_active],
        "may_adjust": page.may_adjust,
        "as_of": view.as_of,
        "summary": summary(page),
    }


def summary(page: AdjustmentsPage) -> str:
    """Sum of the active adjustments of this entry, after decay; empty without any."""
    here = page.view.tree.uuid(page.entry)
    own = [line.counted for line in page.lines if line.is_active and line.adjustment.entry_uid == here]
    if not own:
        return ""
    return _("Amounts to %(amount)s core-h now, after decay.") % {"amount": signed_hours(sum(own))}


def draw_effect(found: AdjustmentPreview, page: AdjustmentsPage) -> dict[str, Any]:
    """Numbers of the entry before and after the adjustment, and its effect after decay in a sentence."""
    before, after = (_standing(one, found.target) for one in (found.before, found.after))
    rows = [
        (_("Core-hours"), before["usage"], after["usage"]),
        (_("Actual"), before["actual"], after["actual"]),
        (_("Priority"), before["priority"], after["priority"]),
    ]
    if found.before.rank is not None or found.after.rank is not None:
        rows += [(_("Rank"), before["rank"], after["rank"]), (_("Factor"), before["factor"], after["factor"])]
    return {
        "counted": _("Amounts to %(amount)s core-h now, after decay.") % {"amount": signed_hours(found.counted)},
        "is_nothing": found.counted == 0,
        "balance_before": before["balance"],
        "balance_after": after["balance"],
        "rows": rows,
    }


def _standing(one: EntryNumbers, target: float | None) -> dict[str, Any]:
    balance: Balance = presentation.balance(one.actual, target, has_usage=one.state != "idle")
    return {
        "usage": presentation.core_hours(one.usage),
        "actual": presentation.compare_shares(one.actual, target).actual,
        "priority": presentation.signed(one.priority),
        "rank": presentation.UNKNOWN if one.rank is None else presentation.count(one.rank),
        "factor": presentation.factor(one.factor),
        "balance": balance,
    }


def _line(line: AdjustmentLine, tree: TreeColumns, i: int, slug: str) -> AdjustmentRow:
    row = line.adjustment
    at = tree.index_of_uid(row.entry_uid)
    where = "here" if at == i else "above" if at is not None and at in tree.ancestors(i) else "below"
    return AdjustmentRow(
        uid=row.uid,
        amount=signed_hours(row.amount_s),
        unit=unit_of(row.resource),
        counted=signed_hours(line.counted),
        used_at=row.at,
        at=row.created_at,
        note=row.note,
        reason=row.reason,
        author=display_name(row.author_name),
        path=line.path,
        url=lines.entry_url(slug, row.entry_uid, line.entry_name) if at is not None else "",
        where=where,
        is_active=line.is_active,
        may_revoke=line.may_revoke,
    )


def page_url(policy: str, uid: UUID) -> str:
    return reverse("dashboard:adjustments", kwargs={"policy": policy, "uid": uid})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("dashboard:entry-find", kwargs={"policy": policy, "uid": uid})


@require_http_methods(["GET", "HEAD", "POST"])
def adjustments(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """List adjustments, with a form; POST previews an adjustment, then publishes it or adds it to a draft."""
    page = _page(request, policy, uid)
    if request.method != "POST":
        form = AdjustmentForm(initial={"day": timezone.localtime(clock.now()).date()})
        return _show(request, page, form=form)
    if read_action(request).step == "revoke":
        return _revoke(request, page)
    _require(page)
    return _decide(request, page)


@require_safe
@fragment(page_url)
def preview(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment with the effect of the values that are being typed."""
    page, form = _page(request, policy, uid), AdjustmentForm(request.GET)
    _require(page)
    context = {"policy": policy, "uid": uid, "page": page, "may_adjust": page.may_adjust}
    if not form.is_valid():
        return render(request, "pages/charges/adjustments/_preview.html", context, status=422)
    effect = _effect(request, page, form)
    return render(request, "pages/charges/adjustments/_preview.html", {**context, **effect})


@require_safe
@fragment(entry_page_url)
def of_entry(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment of an entry's page."""
    return render(request, "pages/charges/adjustments/_entry.html", draw(_page(request, policy, uid)))


def _require(page: AdjustmentsPage) -> None:
    if not page.may_adjust:
        raise NotAllowed(_("You may not do this here: ask a manager of the entry."))


def _decide(request: HttpRequest, page: AdjustmentsPage) -> HttpResponse:
    form, step = AdjustmentForm(request.POST), read_action(request).step or "preview"
    form.fields["reason"].required = step == "publish"
    if not form.is_valid():
        return _show(request, page, form=form, status=422)
    if step == "preview" or not form.is_previewed:
        return _show(request, page, form=form, **_effect(request, page, form))
    slug, uid = page.view.policy.slug, page.view.tree.uuid(page.entry)
    operations = [form.operation(uid, clock.now())]
    try:
        if step == "draft":
            return publishing.add_to_draft(request, slug, operations, form.cleaned_data["reason"])
        return publishing.publish(request, slug, operations, form.cleaned_data["reason"], page_url(slug, uid))
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
        return _show(request, page, form=form, status=status_of(error))


def _revoke(request: HttpRequest, page: AdjustmentsPage) -> HttpResponse:
    """Revoke an adjustment by another change set; the list keeps both."""
    slug, uid = page.view.policy.slug, page.view.tree.uuid(page.entry)
    chosen = request.POST.get("adjustment", "")
    line = next((line for line in page.lines if str(line.adjustment.uid) == chosen and line.is_active), None)
    if line is None:
        raise NotFound(_("Not found"))
    operation = {"op": "adjust_usage", "entry": str(line.adjustment.entry_uid), "revokes": chosen}
    try:
        return publishing.publish(request, slug, [operation], read_action(request).reason, page_url(slug, uid))
    except (Invalid, Conflict) as error:
        messages.error(request, error.message)
        return _show(request, page, form=AdjustmentForm(), status=status_of(error))


def _effect(request: HttpRequest, page: AdjustmentsPage, form: AdjustmentForm) -> dict[str, Any]:
    """Context of the preview; before the first recompute it has only the reason why there is none."""
    try:
        found = preview_adjustment(
            policy_slug=page.view.policy.slug,
            entry_uid=page.view.tree.uuid(page.entry),
            resource=form.cleaned_data["resource"],
            amount_s=form.amount_s,
            used_at=form.used_at(clock.now()),
            actor=actor_of(request),
        )
    except Conflict as error:
        return {"stated": form.stated, "no_effect": error.message}
    return {"stated": form.stated, "effect": draw_effect(found, page)}


def _page(request: HttpRequest, policy: str, uid: UUID) -> AdjustmentsPage:
    text = request.GET.get("before", "")
    before = read_whole(text)
    return get_adjustments_page(policy_slug=policy, uid=uid, actor=actor_of(request), before=before)


def _show(request: HttpRequest, page: AdjustmentsPage, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {**draw(page), **more}
    entry, slug = context["entry"], page.view.policy.slug
    tree = reverse("dashboard:policy", kwargs={"policy": slug})
    here = {"label": entry.name, "url": lines.entry_url(slug, entry.uid, entry.name)}
    context["crumbs"] = [{"label": page.view.policy.name, "url": tree}, here, {"label": _("Adjustments")}]
    return render(request, "pages/charges/adjustments/adjustments.html", context, status=status)
