"""Committee packs: their page, which is also printed, with files and links; and the public page of a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.allocations.packs import bars
from apps.contrib.allocations.packs.content import PackQuery, get_pack
from apps.contrib.allocations.packs.links import (
    DEFAULT_DAYS,
    Sealed,
    list_links,
    may_share,
    open_link,
    revoke_link,
    seal_pack,
    share_pack,
)
from apps.contrib.allocations.packs.sections import Section, sections_of, source_line, title_of
from apps.core import clock
from apps.core.errors import Archived, DomainError, FieldProblem, Invalid, NotFound, status_of
from apps.core.typed_numbers import read_whole
from apps.priorities.selectors.rows import open_view
from apps.web.figures.elements import joined, style_element
from apps.web.shell import lines
from apps.web.shell.requests import SeeOther, actor_of


@dataclass(frozen=True)
class Drawn:
    section: Section
    drawing: SafeString


def context_of(sealed: Sealed) -> dict[str, Any]:
    pack = sealed.document
    drawn = [
        Drawn(section, joined(()) if section.bars is None else bars.draw(section.bars, section.title))
        for section in sections_of(pack)
    ]
    return {
        "pack": pack,
        "title": title_of(pack),
        "made": source_line(pack),
        "sections": drawn,
        "digest": sealed.digest,
        "fingerprint": sealed.fingerprint,
    }


def html_file(sealed: Sealed) -> str:
    """The pack as one HTML file with inline CSS, which loads nothing else when saved, sent or printed."""
    path = finders.find("css/packs.css")
    with open(str(path), encoding="utf-8") as file:
        style = style_element(file.read())
    return render_to_string("contrib/allocations/packs/document.html", {**context_of(sealed), "style": style})


def file_name(pack: Mapping[str, Any], form: str) -> str:
    return f"pack-{pack['policy']}-{lines.name_slug(pack['name'])}-{pack['from'][:7]}-{pack['to'][:7]}.{form}"


_TYPES = {"html": "text/html; charset=utf-8", "json": "application/json"}


@require_http_methods(["GET", "HEAD", "POST"])
def pack(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """`?from=` and `?to=` months. POST creates a link (`step=share`) or revokes one (`step=revoke`)."""
    if request.method != "POST":
        return _show(request, policy, uid)
    try:
        if request.POST.get("step") == "revoke":
            text = request.POST.get("link", "")
            number = read_whole(text) or 0
            revoke_link(policy_slug=policy, link=number, at=clock.now(), actor=actor_of(request))
            return SeeOther(reverse("dashboard:pack", kwargs={"policy": policy, "uid": uid}) + "#links")
        row, secret = share_pack(
            _query(request.POST, policy, uid),
            days=_days(request.POST.get("days", "")),
            reason=request.POST.get("reason", "").strip()[:512],
            at=clock.now(),
            actor=actor_of(request),
        )
    except Invalid as error:
        return _show(request, policy, uid, problem=error)
    address = request.build_absolute_uri(reverse("dashboard:shared-pack", kwargs={"token": secret}))
    return _show(request, policy, uid, made={"address": address, "row": row})


@require_safe
def download(request: HttpRequest, policy: str, uid: UUID, form: str) -> HttpResponse:
    """The pack as a file: `html`, or its signed numbers as `json`."""
    return _file(_sealed(request, policy, uid), form)


@login_not_required
@never_cache
@require_safe
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """A stored pack; 410 after its link has expired."""
    try:
        sealed = _find_shared(token)
    except Archived as error:
        return _bare(
            render(request, "contrib/allocations/packs/ended.html", {"message": error.message}, status=status_of(error))
        )
    return _bare(render(request, "contrib/allocations/packs/document.html", {**context_of(sealed), "token": token}))


@login_not_required
@never_cache
@require_safe
def shared_file(request: HttpRequest, token: str, form: str) -> HttpResponse:
    """A stored pack as a file: `html`, or its signed numbers as `json`."""
    try:
        sealed = _find_shared(token)
    except Archived as error:
        return _bare(
            render(request, "contrib/allocations/packs/ended.html", {"message": error.message}, status=status_of(error))
        )
    return _bare(_file(sealed, form))


def _find_shared(token: str) -> Sealed:
    row, opened = open_link(token, at=clock.now())
    return Sealed(opened.document, bytes(row.signed), opened.digest, opened.key.fingerprint)


def _bare(response: HttpResponse) -> HttpResponse:
    """Response headers for a secret URL: no indexing, no referrer."""
    response["X-Robots-Tag"] = "noindex, nofollow"
    response["Referrer-Policy"] = "no-referrer"
    return response


def _sealed(request: HttpRequest, policy: str, uid: UUID) -> Sealed:
    parameters = request.POST if request.method == "POST" else request.GET
    document = get_pack(_query(parameters, policy, uid), actor=actor_of(request))
    return seal_pack(document, at=clock.now())


def _query(parameters: QueryDict, policy: str, uid: UUID) -> PackQuery:
    return PackQuery(policy, uid, parameters.get("from", ""), parameters.get("to", ""))


def _file(sealed: Sealed, form: str) -> HttpResponse:
    if form not in _TYPES:
        raise NotFound("A pack has the forms html and json.")
    body = html_file(sealed) if form == "html" else sealed.signed
    response = HttpResponse(body, content_type=_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{file_name(sealed.document, form)}"'
    response["Cache-Control"] = "private, no-store"
    return response


def _days(text: str) -> int:
    days = read_whole(text, 5)
    if days is None:
        problem = FieldProblem("days", _("must be a whole number"))
        raise Invalid(_("The days until expiry must be a whole number."), fields=[problem])
    return days


def _show(
    request: HttpRequest, policy: str, uid: UUID, *, problem: DomainError | None = None, made: Any = None
) -> HttpResponse:
    view = open_view(policy_slug=policy, actor=actor_of(request))
    i = view.require(uid)
    parameters, context = (request.POST if request.method == "POST" else request.GET), {}
    try:
        sealed = _sealed(request, policy, uid)
    except Invalid as error:
        problem = error
    else:
        document = sealed.document
        context = context_of(sealed) | {"first": document["from"][:7], "last": document["to"][:7]}
    name = view.policy.name if i == 0 else view.tree.name[i]
    entry = lines.entry_url(policy, uid, name)
    lines.show_tabs_of(request, uid, name)
    whole: dict[str, Any] = {
        "first": parameters.get("from", ""),
        "last": parameters.get("to", ""),
        "days": parameters.get("days", str(DEFAULT_DAYS)),
        "reason": parameters.get("reason", ""),
        "policy": policy,
        "uid": uid,
        "name": name,
        "problem": "" if problem is None else problem.message,
        "code": "" if problem is None else problem.code,
        "made_link": made,
        "may_share": may_share(view, i),
        "links": list_links(view, i),
        "now": view.now,
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            *([{"label": name, "url": entry}] if i else []),
            {"label": _("Committee pack")},
        ],
        **context,
    }
    status = 200 if problem is None else status_of(problem)
    return render(request, "contrib/allocations/pack_links/pack.html", whole, status=status)
