"""What the pages of a mount and of a subscription share: the buttons, their forms, services and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.core import clock
from apps.core.errors import DomainError, Invalid, NotFound, status_of
from apps.federation import control
from apps.federation.fetch_requests import NOT_FETCHED, AnyRemote, Kind
from apps.pages.federation.fetch_log import log_context
from apps.pages.federation.forms import ActionForm, ReasonForm, TrustForm
from apps.pages.federation.publication_presenters import groups_of
from apps.web.shell.forms import RefusableForm, read_action
from apps.web.shell.requests import SeeOther, actor_of

SAVED = gettext_lazy("Saved")
FETCHING = gettext_lazy("Fetching now; the result appears here in a moment.")


@dataclass(frozen=True, slots=True)
class RemoteAction:
    """One button of the page. arguments: those of the service that only this action has, from its checked form."""

    form: type[RefusableForm]
    service: Callable[..., object]
    message: Any = SAVED
    arguments: Callable[[Any], dict[str, Any]] = lambda _form: {}

    def run(self, form: RefusableForm, **remote: Any) -> None:
        self.service(reason=form.cleaned_data["reason"], **self.arguments(form), **remote)


def common_actions(*, when_fetching: Any, after_reset: Any) -> dict[str, RemoteAction]:
    """The buttons that both pages have. when_fetching, after_reset: messages after actions that lead to a fetch."""
    return {
        "fetch": RemoteAction(ActionForm, control.fetch_now, FETCHING),
        "pause": RemoteAction(ReasonForm, control.pause),
        "resume": RemoteAction(ReasonForm, control.resume, when_fetching),
        "freeze": RemoteAction(ReasonForm, control.freeze, gettext_lazy("Frozen: it is fetched, but not applied.")),
        "unfreeze": RemoteAction(ReasonForm, control.unfreeze, when_fetching),
        "reset": RemoteAction(ReasonForm, control.reset_history, after_reset),
        "trust": RemoteAction(
            TrustForm,
            control.trust_key,
            when_fetching,
            arguments=lambda form: {"fingerprint": form.cleaned_data["fingerprint"]},
        ),
    }


def shared_context(remote: AnyRemote, forms: Mapping[str, RefusableForm]) -> dict[str, Any]:
    """What both pages show: key, actions, and the newest fetches. forms: refused ones, by their name in the page."""
    return {
        "remote": remote,
        "groups": groups_of(remote.fingerprint),
        "is_fetched": remote.state not in NOT_FETCHED,
        "action_form": forms.get("action_form") or ActionForm(),
        "trust": forms.get("trust") or TrustForm(),
        "is_trusting": "trust" in forms or remote.state == remote.State.BLOCKED,
        **log_context(remote),
    }


def crumbs_of(label: str) -> list[dict[str, str]]:
    return [{"label": _("Federation"), "url": reverse("pages:federation")}, {"label": label}]


def run_action(
    request: HttpRequest,
    kind: Kind,
    remote_id: int,
    actions: Mapping[str, RemoteAction],
    *,
    page_url: str,
    show_refused: Callable[[RefusableForm, int], HttpResponse],
) -> HttpResponse:
    """Run the action that the button names, and return to the page, or to the list if it is removed.

    show_refused: receives the form with its errors, and the status.

    Raises:
        Invalid: the page has no such button.
        NotFound: it was removed meanwhile.
    """
    action = actions.get(read_action(request).step)
    if action is None:
        raise Invalid(_("Reload the page and try again."))
    form = action.form(request.POST)
    if not form.is_valid():
        return show_refused(form, 422)
    try:
        action.run(form, kind=kind, remote_id=remote_id, at=clock.now(), actor=actor_of(request))
    except NotFound:
        raise
    except DomainError as refusal:
        form.add_refusal(refusal)
        return show_refused(form, status_of(refusal))
    messages.success(request, str(action.message))
    return SeeOther(reverse("pages:federation") if action.service is control.remove else page_url)
