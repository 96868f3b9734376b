"""The table of peers, and the three steps to a new mount: address, comparison of the key, entry and limits.

Each step is a form that carries the values of the earlier ones: it works without scripts, and nothing is stored before
the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.sign_in.sealing import seal, unseal
from apps.core import clock
from apps.core.errors import DomainError, NotAllowed, Unavailable
from apps.federation.control import fetch_now
from apps.federation.grid import peers as grid_peers
from apps.federation.grid.peers import Direction, list_mountable, list_mountable_groups, require_federation
from apps.federation.models import Mount
from apps.federation.mounts.services import Preview, make_mount, preview
from apps.mapping.moves import UnmappedUsage
from apps.pages.federation import presenters as federation_presenters
from apps.pages.federation.forms import EntryForm, KeyForm, MountAddressForm
from apps.pages.federation.publication_presenters import groups_of
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.web.shell.forms import RefusableForm, read_action
from apps.web.shell.requests import SeeOther, actor_of, fragment

_PURPOSE = "token between the steps of mounting"
_MOST_MOUNT_PLACES = 1000
_CARRIED = ("policy", "url", "sealed", "issuer", "publication", "version", "fingerprint", "n_entries")


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:federation")


@require_safe
def peers(request: HttpRequest) -> HttpResponse:
    """The table of peers, filtered by `?direction=`."""
    context = {**_rows(request), "crumbs": [{"label": _("Federation")}]}
    return render(request, "pages/federation/peers.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """Fragment with the table of peers, polled every 30 seconds unless the user pauses it; its order is stable."""
    return render(request, "pages/federation/_peers.html", _rows(request))


def _rows(request: HttpRequest) -> dict[str, Any]:
    now = clock.now()
    all_peers = grid_peers.list_peers(at=now, actor=actor_of(request))
    direction = request.GET.get("direction", "")
    chosen = direction if direction in list(Direction) else ""
    counts = [("", _("All"), len(all_peers))]
    counts += [
        (each.value, str(federation_presenters.DIRECTIONS[each][1]), sum(peer.direction is each for peer in all_peers))
        for each in Direction
    ]
    return {
        "lines": [federation_presenters.peer_line(peer) for peer in all_peers if chosen in ("", peer.direction)],
        "is_empty": not all_peers,
        "chosen": chosen,
        "choices": [
            {"key": key, "label": label, "n": n, "is_chosen": key == chosen} for key, label, n in counts if n or not key
        ],
        "alarms": federation_presenters.alarms(all_peers),
        "headline": federation_presenters.headline(all_peers),
        "counted": federation_presenters.counted(all_peers),
        "now": now,
        "may_mount": bool(list_mountable(at=now, actor=actor_of(request))),
    }


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the next step of mounting a policy; `step` names the form that was submitted."""
    actor, now = actor_of(request), clock.now()
    require_federation(at=now, actor=actor)
    policies = list_mountable(at=now, actor=actor)
    if not policies:
        raise NotAllowed(_("There is no policy yet to mount into."))
    step = read_action(request).step
    if step == "key":
        return _submit_key(request, policies)
    if step == "place":
        return _submit_entry(request, policies)
    return _submit_address(request, policies)


def _has_place(request: HttpRequest) -> bool:
    """Whether some entry is free to mount at."""
    actor, now = actor_of(request), clock.now()
    policies = list_mountable(at=now, actor=actor)
    return any(list_mountable_groups(policy, most=1, at=now, actor=actor) for policy in policies)


def _submit_address(request: HttpRequest, policies: list[Policy]) -> HttpResponse:
    form = _address_form(request, policies)
    if request.method != "POST":
        return _page(request, "address", form)
    if not form.is_valid():
        return _page(request, "address", form, status=422)
    if read_action(request).step == "back":
        return _page(request, "address", form, sealed=_sealed_token(form))
    try:
        seen, sealed = _fetch_preview(request, form.cleaned_data)
    except DomainError as error:
        form.add_refusal(error)
        return _page(request, "address", form, status=_status(error), sealed=_sealed_token(form))
    return _document(request, seen, sealed, KeyForm(), form.cleaned_data)


def _submit_key(request: HttpRequest, policies: list[Policy]) -> HttpResponse:
    """Fetch the document again, so that the confirmed key is the current one, and check the fingerprint."""
    address = _address_form(request, policies)
    form = KeyForm(request.POST)
    if not address.is_valid():
        return _page(request, "address", address, status=422)
    try:
        seen, sealed = _fetch_preview(request, address.cleaned_data)
    except DomainError as error:
        address.add_refusal(error)
        return _page(request, "address", address, status=_status(error), sealed=_sealed_token(address))
    if form.is_valid():
        try:
            form.check(seen.key.fingerprint)
        except DomainError as error:
            form.add_refusal(error)
    if form.errors:
        return _document(request, seen, sealed, form, address.cleaned_data, status=422)
    head = seen.document.head
    carried = {
        "policy": address.cleaned_data["policy"],
        "url": seen.url,
        "sealed": sealed,
        "issuer": head.issuer,
        "publication": head.publication,
        "version": head.version,
        "fingerprint": seen.key.fingerprint,
        "n_entries": seen.n_entries,
    }
    return _choose_entry(request, EntryForm(initial=EntryForm.initial_of(Mount())), carried)


def _submit_entry(request: HttpRequest, policies: list[Policy]) -> HttpResponse:
    carried = {name: request.POST.get(name, "") for name in _CARRIED}
    form = EntryForm(request.POST)
    if carried["policy"] not in {policy.slug for policy in policies}:
        return _page(request, "address", _address_form(request, policies), status=422)
    if not form.is_valid():
        return _choose_entry(request, form, carried, status=422)
    actor, now = actor_of(request), clock.now()
    entry = form.cleaned_data["entry"].strip()
    try:
        unmapped = None if form.settings()["keep_usage"] else _unmapped(request, carried, entry)
        if unmapped:
            return _choose_entry(request, form.keeping_usage(), carried, unmapped=unmapped)
        made = make_mount(
            policy_slug=carried["policy"],
            entry=entry,
            url=carried["url"],
            issuer=carried["issuer"],
            publication=carried["publication"],
            fingerprint=carried["fingerprint"],
            token=_unsealed(carried["sealed"]),
            settings=form.settings(),
            reason=form.cleaned_data["reason"],
            at=now,
            actor=actor,
        )
        fetch_now(kind="mount", remote_id=made.pk, reason=form.cleaned_data["reason"], at=now, actor=actor)
    except DomainError as error:
        form.add_refusal(error)
        return _choose_entry(request, form, carried, status=_status(error))
    messages.success(request, _("Fetching now; the result appears here in a moment."))
    return SeeOther(reverse("pages:federation-mount", args=[made.pk]))


def _unmapped(request: HttpRequest, carried: Mapping[str, str], entry: str) -> UnmappedUsage | None:
    """Usage that would become unmapped by the mount; None if the page already showed it for this entry."""
    if request.POST.get("usage_seen", "") == entry:
        return None
    seen = preview(
        url=carried["url"],
        policy_slug=carried["policy"],
        entry=entry,
        token=_unsealed(carried["sealed"]),
        at=clock.now(),
        actor=actor_of(request),
    )
    return seen.unmapped


def _fetch_preview(request: HttpRequest, fields: Mapping[str, Any]) -> tuple[Preview, str]:
    """Fetch the document; also return the encrypted token, whether typed now or in an earlier step."""
    token = fields["token"].strip() or _unsealed(fields["sealed"])
    seen = preview(
        url=fields["url"].strip(), policy_slug=fields["policy"], token=token, at=clock.now(), actor=actor_of(request)
    )
    return seen, seal(_PURPOSE, token) if token else ""


def _unsealed(text: str) -> str:
    try:
        return unseal(_PURPOSE, text) if text else ""
    except Unavailable:  # encrypted for another user or with an older key of this site: it has to be typed again
        return ""


def _address_form(request: HttpRequest, policies: list[Policy]) -> MountAddressForm:
    choices = [(policy.slug, policy.name) for policy in policies]
    if request.method == "POST":
        return MountAddressForm(request.POST, policies=choices)
    slug = request.GET.get("policy", "")
    initial = {"policy": slug} if slug in dict(choices) else {}
    return MountAddressForm(initial=initial, policies=choices)


def _sealed_token(form: MountAddressForm) -> str:
    """The encrypted token that the next step carries."""
    typed = str(form.cleaned_data.get("token", "")).strip()
    return seal(_PURPOSE, typed) if typed else str(form.cleaned_data.get("sealed", ""))


def _status(error: DomainError) -> int:
    return 403 if isinstance(error, NotAllowed) else 422


def _document(
    request: HttpRequest, seen: Preview, sealed: str, form: KeyForm, fields: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Show the fetched document and the fingerprint of its key, which has to be compared."""
    context = {
        "seen": seen,
        "head": seen.document.head,
        "groups": seen.key.groups,
        "now": clock.now(),
        "excerpt": federation_presenters.excerpt(seen.document.tree),
        "n_levels": seen.n_levels,
        "carried": {"policy": fields["policy"], "url": seen.url, "sealed": sealed},
    }
    return _page(request, "key", form, status=status, **context)


def _choose_entry(
    request: HttpRequest,
    form: EntryForm,
    carried: Mapping[str, Any],
    *,
    unmapped: UnmappedUsage | None = None,
    status: int = 200,
) -> HttpResponse:
    """Ask for the entry and the limits."""
    actor, now = actor_of(request), clock.now()
    policy = get_policy(slug=str(carried["policy"]), actor=actor, scope="federation")
    context = {
        "carried": carried,
        "groups": groups_of(str(carried["fingerprint"])),
        "policy_name": policy.name,
        "places": list_mountable_groups(policy, most=_MOST_MOUNT_PLACES, at=now, actor=actor),
        "unmapped": unmapped,
        "unmapped_core_h": federation_presenters.unmapped_text(unmapped) if unmapped else "",
    }
    return _page(request, "place", form, status=status, **context)


def _page(request: HttpRequest, step: str, form: RefusableForm, *, status: int = 200, **context: Any) -> HttpResponse:
    order = ("address", "key", "place")
    labels = {
        "address": (_("Address"), ""),
        "key": (_("Key"), _("Compare the fingerprint")),
        "place": (_("Entry and limits"), ""),
    }
    at = order.index(step)
    steps = [
        {
            "n": n + 1,
            "label": labels[name][0],
            "note": labels[name][1],
            "state": "done" if n < at else "current" if n == at else "",
        }
        for n, name in enumerate(order)
    ]
    crumbs = [{"label": _("Federation"), "url": reverse("pages:federation")}, {"label": _("Mount a policy")}]
    return render(
        request,
        f"pages/federation/new_{step}.html",
        {
            **context,
            "form": form,
            "steps": steps,
            "crumbs": crumbs,
            "has_place": step != "address" or _has_place(request),
        },
        status=status,
    )
