"""Sign in and out. Messages never tell whether a name exists; the lock is by name and address together."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse

from apps.dashboard.errors import session_ended
from apps.dashboard.htmx import is_htmx


class SignIn(LoginView):
    """Django's own view with our page; a fragment that lost its session gets a note instead of a whole page."""

    template_name = "dashboard/sign_in/sign_in.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return session_ended(request) if is_htmx(request) else super().get(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "site_label": settings.FAIRSHARE_SITE}


sign_in = SignIn.as_view()
sign_out = LogoutView.as_view()
