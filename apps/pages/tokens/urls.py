"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.tokens import api as tokens_api
from apps.pages.tokens import views as tokens

urlpatterns: list[URLPattern] = [
    path("me/tokens/", tokens.tokens, name="tokens"),
    path("me/tokens/<int:token_id>/rotate/", tokens.rotate, name="token-rotate"),
    path("me/tokens/<int:token_id>/revoke/", tokens.revoke, name="token-revoke"),
]
rest: list[URLPattern] = [
    path("tokens", tokens_api.TokenListView.as_view(), name="tokens"),
    path("tokens/<int:token>/rotate", tokens_api.TokenRotationView.as_view(), name="token-rotate"),
    path("tokens/<int:token>/revoke", tokens_api.TokenRevocationView.as_view(), name="token-revoke"),
]
