"""Pages to credit or charge usage to an entry: preview, publish, list and revoke adjustments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, status_of
from apps.core.typed_numbers import read_whole
from apps.pages.charges.adjustments.forms import AdjustmentForm
from apps.pages.charges.adjustments.presenters import draw, draw_effect
from apps.priorities.adjustments import (
    AdjustmentsPage,
    get_adjustments_page,
    preview_adjustment,
)
from apps.web.shell import lines, publishing
from apps.web.shell.forms import (
    read_action,
)
from apps.web.shell.requests import actor_of, fragment


def page_url(policy: str, uid: UUID) -> str:
    return reverse("pages:adjustments", kwargs={"policy": policy, "uid": uid})


def entry_page_url(policy: str, uid: UUID) -> str:
    return reverse("pages:entry-find", kwargs={"policy": policy, "uid": uid})


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
        adjustment_preview = preview_adjustment(
            policy_slug=page.view.policy.slug,
            entry_uid=page.view.tree.uuid(page.entry),
            resource=form.cleaned_data["resource"],
            amount_s=form.amount_s,
            used_at=form.used_at(clock.now()),
            actor=actor_of(request),
        )
    except Conflict as error:
        return {"stated": form.stated, "no_effect": error.message}
    return {"stated": form.stated, "effect": draw_effect(adjustment_preview, page)}


def _page(request: HttpRequest, policy: str, uid: UUID) -> AdjustmentsPage:
    text = request.GET.get("before", "")
    before = read_whole(text)
    return get_adjustments_page(policy_slug=policy, uid=uid, actor=actor_of(request), before=before)


def _show(request: HttpRequest, page: AdjustmentsPage, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {**draw(page), **more}
    entry, slug = context["entry"], page.view.policy.slug
    lines.show_tabs_of(request, entry.uid, entry.name)
    tree = reverse("pages:policy", kwargs={"policy": slug})
    here = {"label": entry.name, "url": lines.entry_url(slug, entry.uid, entry.name)}
    context["crumbs"] = [{"label": page.view.policy.name, "url": tree}, here, {"label": _("Adjustments")}]
    return render(request, "pages/charges/adjustments/adjustments.html", context, status=status)
