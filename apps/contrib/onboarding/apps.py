from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from apps.core.plugins import Addition, PageLink, PluginConfig, Words


class OnboardingConfig(PluginConfig):
    """First steps: a first policy from files of a site that has a scheduler already."""

    name = "apps.contrib.onboarding"
    label = "onboarding"
    requires = ("apps.contrib.schedulers",)

    def body_limits(self) -> Mapping[str, Any]:
        from apps.web.rest.body_limits import UPLOAD

        return {"pages:setup-tree": UPLOAD, "pages:setup-log": UPLOAD}

    def audit_sentences(self) -> Mapping[str, Words]:
        from apps.contrib.onboarding.audit_text import SENTENCES

        return SENTENCES

    def audit_topics(self) -> Mapping[str, Addition[Words]]:
        from apps.contrib.onboarding.audit_text import TOPICS

        return TOPICS

    def personal_data(self) -> Mapping[str, Addition[Any]]:
        from apps.accounts.about_person import section

        return {
            "onboarding.firstpolicydraft": Addition(
                section("first policies that they drafted", "file_name created_at updated_at"),
                after="federation.subscription",
            ),
        }

    def page_links(self) -> Mapping[str, Addition[PageLink]]:
        return {"setup": Addition(PageLink("overview.empty", _("First steps"), "list-tree"))}

    def command_actions(self) -> Mapping[str, Any]:
        from apps.contrib.onboarding.setup_action import SETUP

        return {"scheduler.setup": SETUP}

    def rest_tags(self) -> Mapping[str, Addition[Words]]:
        return {
            "setup": Addition("A Slurm site from its own outputs to shadow mode", after="decay-functions"),
            "slurm-config": Addition("Slurm's own fair share as settings to propose", after="setup"),
        }

    def rest_examples(self) -> Mapping[str, Any]:
        from apps.contrib.onboarding.rest_examples import REQUESTS

        return REQUESTS

    def guides(self) -> Mapping[str, Addition[Any]]:
        from apps.contrib.onboarding.guides import GUIDES

        return GUIDES

    def renamed_fields(self) -> Iterable[Any]:
        from apps.contrib.onboarding.renamed_fields import RENAMED

        return RENAMED
