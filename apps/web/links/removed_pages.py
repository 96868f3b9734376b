"""Addresses of pages that the product no longer has: a bookmark gets 410, what to use instead and a link to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from apps.web.shell.errors import Refusal, refuse, refuse_in_shell


class RemovedPage(NamedTuple):
    """`instead` is a whole sentence, lazily translated; `page` the name of the page that the answer links to.

    The link keeps those parts of the old address that `keeps` names, such as the policy, and with `keeps_query` what
    follows the question mark. is_public: its address held a secret, and people who don't sign in have it.
    """

    route: str
    instead: str | Promise
    page: str = "overview"
    keeps: tuple[str, ...] = ()
    keeps_query: bool = False
    is_public: bool = False


def _view(removed: RemovedPage) -> Callable[..., HttpResponse]:
    def gone(request: HttpRequest, **parts: str) -> HttpResponse:
        url = reverse(f"pages:{removed.page}", kwargs={name: parts[name] for name in removed.keeps})
        if removed.keeps_query and request.GET:
            url += f"?{request.GET.urlencode()}"
        title = _("This page was removed")
        refusal = Refusal(410, title, str(removed.instead), "removed", instead_url=url)
        if not removed.is_public:
            return refuse(request, refusal)
        response = refuse_in_shell(request, refusal)
        response["X-Robots-Tag"] = "noindex, nofollow"
        response["Referrer-Policy"] = "no-referrer"
        return response

    return login_not_required(never_cache(gone)) if removed.is_public else gone


def removed_routes(pages: Iterable[RemovedPage]) -> list[URLPattern]:
    return [path(page.route, _view(page)) for page in pages]
