"""Pages of notices and of the rules that raise them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid, NotAllowed
from apps.core.typed_numbers import read_whole
from apps.dashboard.notices.forms import RuleForm, ScopeForm, list_kinds
from apps.dashboard.notices.presenters import draw, headline, url_of
from apps.dashboard.shell.forms import read_action
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.mapping.permissions import load_visibility
from apps.notices import rules as rule_services
from apps.notices import selectors
from apps.notices.kinds import kind_of, kinds
from apps.notices.kinds.base import Kind
from apps.notices.rules import NEW, Place, RuleRow
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.stored import load_tree
from apps.usage.selectors import list_source_names

# --- Notices ----------------------------------------------------------------------------------------------------------
SHOWN = 100
STATES = [
    ("open", gettext_lazy("Open")),
    ("unread", gettext_lazy("New")),
    ("snoozed", gettext_lazy("Snooze")),
    ("closed", gettext_lazy("Closed")),
]
SNOOZES = [(1, gettext_lazy("a day")), (7, gettext_lazy("a week")), (30, gettext_lazy("a month"))]
_FILTERS = ("state", "kind", "of")
_LONGEST_BACK = 300
_FIRST = {"bad": 0, "warn": 1, "info": 2}


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:notices")


@require_safe
def follow(request: HttpRequest, notice: int) -> HttpResponse:
    """Redirect a link in a mail to the page that a notice is about, if the reader may still see it."""
    line = selectors.get_notice(id=notice, at=clock.now(), actor=actor_of(request))
    return SeeOther(url_of(line) or reverse("dashboard:notices"))


@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """List of notices, most severe first; each links to the page that it is about."""
    actor, now = actor_of(request), clock.now()
    own = selectors.list_notices(at=now, actor=actor)
    n_unread = sum(line.is_unread for line in own)
    context = {
        "headline": headline(len(own), n_unread),
        "n_open": len(own),
        "n_unread": n_unread,
        "crumbs": [{"label": _("Notices")}],
        **_list_context(request, actor),
    }
    return render(request, "dashboard/notices/notices.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest) -> HttpResponse:
    """Fragment with the filtered list."""
    response = render(request, "dashboard/notices/_rows.html", _list_context(request, actor_of(request)))
    if request.GET:  # the address keeps the filter, so that a bookmark has it
        response["HX-Replace-Url"] = f"{page_url()}?{request.GET.urlencode()}"
    return response


@require_POST
def read(request: HttpRequest) -> HttpResponse:
    """Mark one notice as read or unread, or as read all up to the newest one that the page showed."""
    actor, now = actor_of(request), clock.now()
    if "up_to" in request.POST:
        n = selectors.mark_all_read(up_to=_number(request, "up_to"), at=now, actor=actor)
        messages.success(
            request, ngettext("%(n)s notice marked as read.", "%(n)s notices marked as read.", n) % {"n": n}
        )
    elif request.POST.get("unread"):
        selectors.mark_unread(id=_number(request, "notice"), at=now, actor=actor)
    else:
        selectors.mark_read(ids=[_number(request, "notice")], at=now, actor=actor)
    return SeeOther(_back(request))


@require_POST
def snooze(request: HttpRequest) -> HttpResponse:
    """Snooze a notice for some days; 0 days ends the snooze."""
    actor, now, days = actor_of(request), clock.now(), _number(request, "days")
    until = now + timedelta(days=min(days, 3660)) if days else None
    selectors.snooze(id=_number(request, "notice"), until=until, at=now, actor=actor)
    messages.success(request, _("Saved"))
    return SeeOther(_back(request))


def _list_context(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    state = request.GET.get("state", "open")
    state = state if state in selectors.STATES else "open"
    kind = request.GET.get("kind", "")
    kind = kind if kind in kinds() else ""
    policy = request.GET.get("of", "")[:64]
    now = clock.now()
    found = selectors.list_notices(state=state, kind=kind, policy=policy, limit=SHOWN + 1, at=now, actor=actor)
    shown = found[:SHOWN]
    if state != "closed":
        shown = sorted(shown, key=lambda line: (_FIRST[line.notice.level], -line.notice.pk))
    return {
        "state": state,
        "states": STATES,
        "kind": kind,
        "kinds": [(each.name, each.title) for each in list_kinds()],
        "of": policy,
        "policies": list_policies(actor=actor),
        "rows": [draw(line, now) for line in shown],
        "is_more": len(found) > SHOWN,
        "is_filtered": bool(kind or policy or state != "open"),
        "newest": max((line.notice.pk for line in shown), default=0),
        "snoozes": SNOOZES,
        "here": request.GET.urlencode(),
    }


def _number(request: HttpRequest, name: str) -> int:
    """A hidden number of the form; raises Invalid without one."""
    number = read_whole(request.POST.get(name, ""))
    if number is None:
        raise Invalid(_("Reload the page: %(what)s is missing.") % {"what": name})
    return number


def _back(request: HttpRequest) -> str:
    """URL of the list with the filters that it had; other parameters are dropped."""
    query = request.POST.get("back", "")[:_LONGEST_BACK]
    state = {name: value for name, value in QueryDict(query).items() if name in _FILTERS}
    return page_url() + (f"?{urlencode(state)}" if state else "")


# --- Rules ------------------------------------------------------------------------------------------------------------
@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    """Rules by kind of notice: the site's rule first, then the rules for parts that override it."""
    actor, now = actor_of(request), clock.now()
    lines = rule_services.list_rules(at=now, actor=actor)
    groups = []
    for kind in list_kinds():
        own = [draw_rule(line) for line in lines if line.kind is kind]
        groups.append((kind, sorted(own, key=lambda row: (not row["is_site"], row["place"]))))
    places = divided_policies(actor)
    context = {"groups": groups, "may_add": bool(places) or actor.is_admin, **_crumbs()}
    return render(request, "dashboard/notices/rules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, rule: int) -> HttpResponse:
    """Show one rule; POST changes it if the actor manages the watched part."""
    actor, now = actor_of(request), clock.now()
    line = rule_services.get_rule(id=rule, at=now, actor=actor)
    place = Place(line.rule.policy, line.rule.entry_uid, line.rule.source)
    initial = RuleForm.initial_of(line.rule.is_on, line.terms, line.rule.version)
    form = RuleForm(request.POST or None, kind=line.kind, initial=initial)
    if request.method == "POST" and _set_rule(form, place, actor):
        messages.success(request, _("Saved"))
        return SeeOther(reverse("dashboard:notice-rules"))
    context = {"form": form, "kind": line.kind, "row": draw_rule(line), "is_new": False, **_crumbs(line.kind)}
    return render(request, "dashboard/notices/rule.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
def new_rule(request: HttpRequest) -> HttpResponse:
    """Ask for kind and scope of a new rule, then for its limits."""
    actor = actor_of(request)
    if not (divided_policies(actor) or actor.is_admin):
        raise NotAllowed(_("Rules are set by administrators and by managers of a group."))
    scope = ScopeForm(request.GET if request.GET else None, **_choices(actor))
    if not request.GET or not scope.is_valid():
        return render(request, "dashboard/notices/rule_place.html", {"form": scope, **_crumbs()})
    try:
        kind, place = kind_of(scope.cleaned_data["kind"]), _place(scope, actor)
        rule_services.require_place(place, clock.now(), actor)
    except (Invalid, NotAllowed) as error:
        scope.add_refusal(error)
        return render(request, "dashboard/notices/rule_place.html", {"form": scope, **_crumbs()}, status=422)
    existing = _existing_rule(kind, place, actor)
    if existing is not None and request.method != "POST":
        return SeeOther(reverse("dashboard:notice-rule", kwargs={"rule": existing.rule.pk}))
    form = RuleForm(request.POST or None, kind=kind, initial=RuleForm.initial_of(True, kind.defaults(), NEW))
    if request.method == "POST" and _set_rule(form, place, actor):
        messages.success(request, _("Saved"))
        return SeeOther(reverse("dashboard:notice-rules"))
    row = {"place": _place_text(place, scope.cleaned_data["entry"]), "may_change": True}
    context = {"form": form, "kind": kind, "row": row, "is_new": True, **_crumbs(kind)}
    return render(request, "dashboard/notices/rule.html", context, status=form.status)


@require_POST
def remove_rule(request: HttpRequest, rule: int) -> HttpResponse:
    rule_services.remove_rule(id=rule, version=read_action(request).version, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Removed"))
    return SeeOther(reverse("dashboard:notice-rules"))


def draw_rule(line: RuleRow) -> dict[str, Any]:
    rule = line.rule
    limits = [(term.name, term.title, line.terms[term.name]) for term in line.kind.terms]
    place = Place(rule.policy, rule.entry_uid, rule.source)
    return {
        "id": rule.pk,
        "is_on": rule.is_on,
        "limits": limits,
        "version": rule.version,
        "may_change": line.may_change,
        "place": _place_text(place, line.path),
        "is_site": place == Place(),
        "author": display_name(rule.author_name),
        "changed_at": rule.changed_at,
    }


def _place_text(place: Place, path: str) -> str:
    if place.source is not None:
        return place.source.name
    if place.policy is None:
        return _("The whole site")
    if place.entry_uid is None:
        return place.policy.name
    return _("%(policy)s, below %(path)s") % {"policy": place.policy.name, "path": path}


def _set_rule(form: RuleForm, place: Place, actor: Actor) -> bool:
    """Store the rule; False if it is invalid or refused, with the errors in the form."""
    if not form.is_valid():
        return False
    given = form.cleaned_data
    try:
        rule_services.set_rule(
            kind=form.kind.name,
            place=place,
            is_on=given["is_on"],
            terms=form.terms(),
            version=given["version"],
            at=clock.now(),
            actor=actor,
        )
    except NotAllowed:
        raise
    except DomainError as error:
        form.add_refusal(error)
        return False
    return True


def _existing_rule(kind: Kind, place: Place, actor: Actor) -> RuleRow | None:
    lines = rule_services.list_rules(at=clock.now(), actor=actor)
    return next(
        (
            line
            for line in lines
            if line.kind is kind and Place(line.rule.policy, line.rule.entry_uid, line.rule.source) == place
        ),
        None,
    )


def _place(form: ScopeForm, actor: Actor) -> Place:
    given = form.cleaned_data
    uid = entry_uid(given["policy"], given["entry"], actor) if given["policy"] else None
    return rule_services.place_of(
        policy_slug=given["policy"], entry_uid=uid, source_slug=given.get("source", ""), actor=actor
    )


def entry_uid(policy_slug: str, path: str, actor: Actor) -> Any:
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


def _choices(actor: Actor) -> dict[str, list[tuple[str, str]]]:
    sources = list_source_names(actor=actor) if actor.is_admin else []
    return {"policies": divided_policies(actor), "sources": sources}


def divided_policies(actor: Actor) -> list[tuple[str, str]]:
    """Policies in which the actor manages the shares of at least one group."""
    found = []
    for policy in list_policies(actor=actor):
        sees = load_visibility(policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor)
        if sees.divided.any():
            found.append((policy.slug, policy.name))
    return found


def _crumbs(kind: Kind | None = None) -> dict[str, Any]:
    notices, own = reverse("dashboard:notices"), reverse("dashboard:notice-rules")
    crumbs: list[dict[str, Any]] = [{"label": _("Notices"), "url": notices}, {"label": _("Rules")}]
    if kind is not None:
        crumbs[-1]["url"] = own
        crumbs.append({"label": kind.title})
    return {"crumbs": crumbs}
