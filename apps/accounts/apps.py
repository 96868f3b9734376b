from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from apps.accounts import checks  # noqa: F401 - registers itself
        from apps.accounts.receivers import store_sign_in

        user_logged_in.connect(store_sign_in, dispatch_uid="accounts.store_sign_in")
