from __future__ import annotations

from django.apps import AppConfig


class MappingConfig(AppConfig):
    name = "apps.mapping"
    label = "mapping"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from apps.mapping import moves as tree_moves
        from apps.mapping.receivers import own_accounts_after_sign_in
        from apps.policies.changesets.change_sets import register_account_moves

        register_account_moves(tree_moves.account_moves_of_tree)
        user_logged_in.connect(own_accounts_after_sign_in, dispatch_uid="mapping.own_accounts_after_sign_in")
