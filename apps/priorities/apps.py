from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PrioritiesConfig(AppConfig):
    name = "apps.priorities"
    label = "priorities"

    def ready(self) -> None:
        from django.core.checks import register as register_check

        from apps.core.operator_commands import OWN_CHECKS
        from apps.policies.publishing.revisions import policy_published
        from apps.policies.publishing.size_guard import register_rank_count
        from apps.policies.recompute_runs import KIND
        from apps.policies.settings import register_trial
        from apps.priorities import change_effect_runs
        from apps.priorities.checks import check_packages
        from apps.priorities.receivers import recompute_after_publish
        from apps.priorities.recompute import staleness as recompute
        from apps.runs.kinds import register
        from apps.runs.queues import INTERACTIVE, RECOMPUTE

        register_check(check_packages, OWN_CHECKS)
        register(KIND, recompute.run_recompute, queue=RECOMPUTE, title=_("a recompute"))
        register(
            change_effect_runs.KIND,
            change_effect_runs.run_effect,
            queue=INTERACTIVE,
            title=_("the effect of a change set"),
        )
        register_rank_count(change_effect_runs.count_rank_moves)
        register_trial(change_effect_runs.check_algorithm_on_usage)
        policy_published.connect(recompute_after_publish, dispatch_uid="priorities.recompute_after_publish")
