"""Pages of webhooks, with the log of their deliveries."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.contrib.notices import webhooks as webhook_services
from apps.contrib.notices.kinds import KINDS, is_kind, kind_of
from apps.contrib.notices.models import Delivery
from apps.contrib.notices.pages.forms import WebhookForm
from apps.contrib.notices.places import place_of
from apps.contrib.notices.webhooks import WebhookLine
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, Stale
from apps.mapping.permissions import load_visibility
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.stored import load_tree
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment

_BADGES = {"sent": "ok", "failed": "bad", "waiting": "warn", "dropped": ""}


def page_url(webhook: int, **_kwargs: Any) -> str:
    return reverse("pages:webhook", kwargs={"webhook": webhook})


@require_safe
def webhooks(request: HttpRequest) -> HttpResponse:
    actor, now = actor_of(request), clock.now()
    lines = webhook_services.list_webhooks(at=now, actor=actor)
    context = {
        "rows": [(line, place_text(line)) for line in lines],
        "may_add": actor.is_admin or bool(_divided_policies(actor)),
        **_crumbs(),
    }
    return render(request, "contrib/notices/webhooks.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Create a webhook; the response to the POST shows its secret, which is never shown again."""
    actor = actor_of(request)
    form = _form(request, actor)
    if not (actor.is_admin or _divided_policies(actor)):
        raise NotAllowed(_("Webhooks are created by administrators and by managers of a group."))
    if request.method == "POST" and form.is_valid():
        cleaned_data = form.cleaned_data
        try:
            uid = _entry_uid(cleaned_data["policy"], cleaned_data["entry"], actor) if cleaned_data["policy"] else None
            made, secret = webhook_services.make_webhook(
                name=cleaned_data["name"],
                url=cleaned_data["url"],
                kinds=cleaned_data["kinds"],
                at=clock.now(),
                actor=actor,
                place=place_of(policy_slug=cleaned_data["policy"], entry_uid=uid, actor=actor),
            )
        except (Invalid, Conflict, NotAllowed) as error:
            form.add_refusal(error)
        else:
            return _page(request, made.pk, secret=secret)
    context = {"form": form, "kinds": KINDS, **_crumbs(_("New webhook"))}
    return render(request, "contrib/notices/webhook_new.html", context, status=form.status)


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
        cleaned_data = form.cleaned_data
        try:
            webhook_services.change_webhook(
                id=webhook,
                version=cleaned_data["version"] or 0,
                name=cleaned_data["name"],
                url=cleaned_data["url"],
                kinds=cleaned_data["kinds"],
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
    return render(request, "contrib/notices/_log.html", _log(webhook, actor_of(request)))


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
            return SeeOther(reverse("pages:webhooks"))
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
        "kinds": KINDS,
        **_log(id, actor),
        **_crumbs(line.webhook.name),
    }
    answer = render(request, "contrib/notices/webhook.html", context, status=status)
    if secret:
        answer["Cache-Control"] = "no-store"
    return answer


def _log(id: int, actor: Actor) -> dict[str, Any]:
    deliveries = webhook_services.list_deliveries(id=id, at=clock.now(), actor=actor)
    rows = [{"delivery": delivery, "css": _BADGES[delivery.state], "what": _what(delivery)} for delivery in deliveries]
    is_moving = any(each.state == Delivery.State.WAITING and each.attempts == 0 for each in deliveries)
    return {"rows": rows, "is_moving": is_moving, "webhook_id": id}


def _what(delivery: Delivery) -> str:
    if delivery.notice is None:
        return _("Test")
    kind = delivery.notice.kind
    notice = str(kind_of(kind).title) if is_kind(kind) else kind
    if delivery.event == Delivery.Event.TEST:
        return _("Test: %(notice)s") % {"notice": notice}
    is_open = delivery.event == Delivery.Event.OPENED
    return (_("%(notice)s, opened") if is_open else _("%(notice)s, closed")) % {"notice": notice}


def _form(request: HttpRequest | None, actor: Actor, line: WebhookLine | None = None) -> WebhookForm:
    initial: dict[str, Any] = {}
    if line is not None:
        current = line.webhook
        initial = {"name": current.name, "url": current.url, "kinds": current.kinds, "version": current.version}
    data = request.POST if request is not None and request.method == "POST" else None
    form = WebhookForm(data, initial=initial, policies=_divided_policies(actor), is_admin=actor.is_admin)
    if line is not None:
        del form.fields["policy"], form.fields["entry"]  # the scope of a webhook can't be changed
    return form


def _crumbs(last: str = "") -> dict[str, Any]:
    crumbs: list[dict[str, Any]] = [
        {"label": _("Notices"), "url": reverse("pages:notices")},
        {"label": _("Webhooks")},
    ]
    if last:
        crumbs[-1]["url"] = reverse("pages:webhooks")
        crumbs.append({"label": last})
    return {"crumbs": crumbs}


def _entry_uid(policy_slug: str, path: str, actor: Actor) -> UUID | None:
    """UID of the entry with a path, None for the whole policy; raises Invalid if the actor sees no such entry."""
    path = "/" + path.strip().strip("/")
    if path == "/":
        return None
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    i = tree.index_of_path(path)
    if i is not None and load_visibility(policy=policy, tree=tree, at=clock.now(), actor=actor).may_see(i):
        return tree.uuid(i)
    message = _("There is no entry %(path)s in this policy.") % {"path": path[:200]}
    raise Invalid(message, fields=[FieldProblem("entry", message)])


def _divided_policies(actor: Actor) -> list[tuple[str, str]]:
    """Policies in which the actor manages the shares of at least one group."""
    choices = []
    for policy in list_policies(actor=actor):
        sees = load_visibility(policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor)
        if sees.divided.any():
            choices.append((policy.slug, policy.name))
    return choices
