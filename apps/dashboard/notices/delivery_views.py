"""Pages for the delivery of notices: the user's mail settings, and webhooks with their delivery logs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, Stale
from apps.dashboard.notices.forms import MailForm, WebhookForm
from apps.dashboard.notices.views import divided_policies, entry_uid
from apps.dashboard.shell.forms import read_action
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.notices import digests
from apps.notices import mail as mail_message
from apps.notices import webhooks as webhook_services
from apps.notices.kinds import kinds
from apps.notices.models import Delivery
from apps.notices.rules import place_of
from apps.notices.webhooks import WebhookLine


# --- Mail -------------------------------------------------------------------------------------------------------------
@require_http_methods(["GET", "HEAD", "POST"])
def mail(request: HttpRequest) -> HttpResponse:
    """Mail settings of the user; every mail links here, so that it can be stopped."""
    actor = actor_of(request)
    found = digests.get_mail_settings(actor=actor)
    chosen = found.preference
    wanted = [name for name in kinds() if name not in chosen.muted]
    initial: dict[str, Any] = {"interval": chosen.interval, "hour": chosen.hour, "kinds": wanted}
    initial["statements"] = chosen.statements_since is not None
    form = MailForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            digests.set_preference(interval=given["interval"], hour=given["hour"], muted=form.muted(), actor=actor)
        except Invalid as error:
            form.add_refusal(error)
        else:
            digests.set_statement_mail(wanted=given["statements"], at=clock.now(), actor=actor)
            messages.success(request, _("Saved"))
            return SeeOther(reverse("dashboard:notice-mail"))
    notices = reverse("dashboard:notices")
    context = {
        "form": form,
        "found": found,
        "zone": settings.TIME_ZONE,
        "crumbs": [{"label": _("Notices"), "url": notices}, {"label": _("E-mail")}],
    }
    return render(request, "dashboard/notices/mail.html", context, status=form.status)


@login_not_required
@csrf_exempt
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Unsubscribe by a signed link. Mail programs POST without asking (RFC 8058); people confirm on the page first,
    because programs also follow links.

    The signature authorises the request, so it needs no session and no CSRF token.
    """
    _user, is_statement = mail_message.read_unsubscribe(token)
    if request.method == "POST":
        mail_message.unsubscribe(token)
    context = {"is_done": request.method == "POST", "is_statement": is_statement}
    return render(request, "dashboard/notices/unsubscribe.html", context)


# --- Webhooks ---------------------------------------------------------------------------------------------------------
_BADGES = {"sent": "ok", "failed": "bad", "waiting": "warn", "dropped": ""}


def page_url(webhook: int, **_kwargs: Any) -> str:
    return reverse("dashboard:webhook", kwargs={"webhook": webhook})


@require_safe
def webhooks(request: HttpRequest) -> HttpResponse:
    actor, now = actor_of(request), clock.now()
    lines = webhook_services.list_webhooks(at=now, actor=actor)
    context = {
        "rows": [(line, place_text(line)) for line in lines],
        "may_add": actor.is_admin or bool(divided_policies(actor)),
        **_crumbs(),
    }
    return render(request, "dashboard/notices/webhooks.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Create a webhook; the response to the POST shows its secret, which is never shown again."""
    actor = actor_of(request)
    form = _form(request, actor)
    if not (actor.is_admin or divided_policies(actor)):
        raise NotAllowed(_("Webhooks are created by administrators and by managers of a group."))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            uid = entry_uid(given["policy"], given["entry"], actor) if given["policy"] else None
            made, secret = webhook_services.make_webhook(
                name=given["name"],
                url=given["url"],
                kinds=given["kinds"],
                at=clock.now(),
                actor=actor,
                place=place_of(policy_slug=given["policy"], entry_uid=uid, actor=actor),
            )
        except (Invalid, Conflict, NotAllowed) as error:
            form.add_refusal(error)
        else:
            return _page(request, made.pk, secret=secret)
    context = {"form": form, "kinds": kinds().values(), **_crumbs(_("New webhook"))}
    return render(request, "dashboard/notices/webhook_new.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: HttpRequest, webhook: int) -> HttpResponse:
    """Settings of a webhook and the log of its deliveries."""
    actor, now = actor_of(request), clock.now()
    line = webhook_services.get_webhook(id=webhook, at=now, actor=actor)
    if request.method != "POST":
        return _page(request, webhook)
    webhook_services.require_owner(line.webhook, actor)
    form = _form(request, actor, line)
    if form.is_valid():
        given = form.cleaned_data
        try:
            webhook_services.change_webhook(
                id=webhook,
                version=given["version"] or 0,
                name=given["name"],
                url=given["url"],
                kinds=given["kinds"],
                at=now,
                actor=actor,
            )
        except (Invalid, Conflict, Stale) as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(page_url(webhook))
    return _page(request, webhook, form=form, status=form.status)


@require_safe
@fragment(page_url)
def log(request: HttpRequest, webhook: int) -> HttpResponse:
    """Fragment with the newest deliveries; it polls while one is pending."""
    return render(request, "dashboard/notices/_log.html", _log(webhook, actor_of(request)))


@require_POST
def act(request: HttpRequest, webhook: int) -> HttpResponse:
    """Test a webhook, turn it on or off, renew its secret, or remove it."""
    actor, now, action = actor_of(request), clock.now(), read_action(request)
    row: dict[str, Any] = {"id": webhook, "version": action.version, "at": now, "actor": actor}
    try:
        if action.step == "test":
            webhook_services.send_test(id=webhook, at=now, actor=actor)
            messages.success(request, _("Test sent; the result appears below."))
        elif action.step in ("on", "off"):
            webhook_services.switch_webhook(**row, is_on=action.step == "on")
        elif action.step == "renew":
            return _page(request, webhook, secret=webhook_services.renew_secret(**row)[1])
        elif action.step == "remove":
            webhook_services.remove_webhook(**row)
            messages.success(request, _("Removed"))
            return SeeOther(reverse("dashboard:webhooks"))
        else:
            raise Invalid(_("Choose an action."))
    except (Conflict, Stale) as error:
        messages.warning(request, error.message)
    return SeeOther(page_url(webhook))


def place_text(line: WebhookLine) -> str:
    webhook = line.webhook
    if webhook.policy is None:
        return _("The whole site")
    if line.path == "/":
        return webhook.policy.name
    return _("%(policy)s, at and below %(path)s") % {"policy": webhook.policy.name, "path": line.path}


def _page(
    request: HttpRequest, id: int, *, secret: str = "", form: WebhookForm | None = None, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    line = webhook_services.get_webhook(id=id, at=clock.now(), actor=actor)
    context = {
        "line": line,
        "webhook": line.webhook,
        "is_owner": webhook_services.is_owner(line.webhook, actor),
        "place": place_text(line),
        "secret": secret,
        "form": form or (_form(None, actor, line) if webhook_services.is_owner(line.webhook, actor) else None),
        "kinds": kinds().values(),
        **_log(id, actor),
        **_crumbs(line.webhook.name),
    }
    answer = render(request, "dashboard/notices/webhook.html", context, status=status)
    if secret:
        answer["Cache-Control"] = "no-store"
    return answer


def _log(id: int, actor: Actor) -> dict[str, Any]:
    deliveries = webhook_services.list_deliveries(id=id, at=clock.now(), actor=actor)
    rows = [{"one": each, "css": _BADGES[each.state], "what": _what(each)} for each in deliveries]
    is_moving = any(each.state == Delivery.State.WAITING and each.attempts == 0 for each in deliveries)
    return {"rows": rows, "is_moving": is_moving, "webhook_id": id}


def _what(delivery: Delivery) -> str:
    if delivery.notice is None:
        return _("Test")
    return str(kinds()[delivery.notice.kind].title) if delivery.notice.kind in kinds() else delivery.notice.kind


def _form(request: HttpRequest | None, actor: Actor, line: WebhookLine | None = None) -> WebhookForm:
    initial: dict[str, Any] = {}
    if line is not None:
        found = line.webhook
        initial = {"name": found.name, "url": found.url, "kinds": found.kinds, "version": found.version}
    data = request.POST if request is not None and request.method == "POST" else None
    form = WebhookForm(data, initial=initial, policies=divided_policies(actor), is_admin=actor.is_admin)
    if line is not None:
        del form.fields["policy"], form.fields["entry"]  # the scope of a webhook can't be changed
    return form


def _crumbs(last: str = "") -> dict[str, Any]:
    crumbs: list[dict[str, Any]] = [
        {"label": _("Notices"), "url": reverse("dashboard:notices")},
        {"label": _("Webhooks")},
    ]
    if last:
        crumbs[-1]["url"] = reverse("dashboard:webhooks")
        crumbs.append({"label": last})
    return {"crumbs": crumbs}
