"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.sign_in import password_views as passwords
from apps.pages.sign_in import second_factor_views as second_factor
from apps.pages.sign_in import views as sign_in

urlpatterns: list[URLPattern] = [
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/_again", sign_in.sign_in_again, name="sign-in-again"),
    path("sign-in/_state", sign_in.sign_in_state, name="sign-in-state"),
    path("sign-in/done/", sign_in.signed_in, name="signed-in"),
    path("sign-in/oidc/", sign_in.oidc_start, name="oidc-start"),
    path("sign-in/second-step/", second_factor.step, name="second-step"),
    path("sign-in/reset/", passwords.ask_reset, name="password-reset"),
    path("sign-in/reset/<uidb64>/<token>/", passwords.confirm_reset, name="password-reset-confirm"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("me/password/", passwords.own, name="password"),
    path("me/password/sessions/", passwords.end_sessions, name="sessions-end"),
    path("me/second-factor/", second_factor.own, name="second-factor"),
]
rest: list[URLPattern] = []
