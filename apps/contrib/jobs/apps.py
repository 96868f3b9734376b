from __future__ import annotations

from collections.abc import Mapping

from apps.core.plugins import PluginConfig, Words


class JobsConfig(PluginConfig):
    """Priorities of jobs: the calculator, and the ledger of SAM's queue."""

    name = "apps.contrib.jobs"
    label = "gateway"

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.jobs.audit_text import SENTENCES

        return SENTENCES
