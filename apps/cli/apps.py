from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import Tags, register

from apps.cli.backup.settings_check import check_backup_programs, check_backup_settings
from apps.cli.stack.migration_check import check_migrations
from apps.cli.stack.replica_check import check_replica
from apps.cli.stack.restore_check import check_unfinished_restore
from apps.core.clock import check_clock
from apps.core.operator_commands import OWN_CHECKS
from apps.core.plugin_checks import check_claimed_entries, check_failed_plugins, check_left_out_plugins


class CliConfig(AppConfig):
    name = "apps.cli"

    def ready(self) -> None:
        register(check_clock, OWN_CHECKS)
        register(check_replica, OWN_CHECKS)
        register(check_backup_settings, OWN_CHECKS)
        register(check_backup_programs, Tags.database)
        register(check_unfinished_restore, OWN_CHECKS)
        register(check_claimed_entries, OWN_CHECKS)
        register(check_failed_plugins, OWN_CHECKS)
        register(check_migrations, Tags.database)
        if apps.is_installed("apps.runs"):  # not for commands without a database
            from apps.cli.stack.shared_check import check_shared

            register(check_shared, Tags.database)
        register(check_left_out_plugins, Tags.database)
        # Commands without a database run without the federation app; production rejects the sample site.
        if apps.is_installed("apps.federation") and not settings.PRODUCTION:
            from apps.cli.sample.peers import register_publishers

            register_publishers()
