from __future__ import annotations

from django.apps import AppConfig


class PrioritiesConfig(AppConfig):
    name = "apps.priorities"
    label = "priorities"

    def ready(self) -> None:
        from django.core.checks import register as register_check

        from apps.policies.signals import policy_published
        from apps.priorities import recompute
        from apps.priorities.checks import check_packages
        from apps.priorities.receivers import nudge_after_publish
        from apps.runs.registry import register

        register_check(check_packages)
        register(recompute.KIND, recompute.work_recompute)
        policy_published.connect(nudge_after_publish, dispatch_uid="priorities.nudge_after_publish")
