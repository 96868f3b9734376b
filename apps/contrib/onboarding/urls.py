"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.onboarding import api as setup
from apps.contrib.onboarding import slurm_config_api as slurm_config
from apps.contrib.onboarding.pages import views as onboarding

urlpatterns: list[URLPattern] = [
    path("setup/", onboarding.setup, name="setup"),
    path("setup/_progress", onboarding.progress, name="setup-progress"),
    path("setup/tree/", onboarding.tree, name="setup-tree"),
    path("setup/here/", onboarding.here, name="setup-here"),
    path("setup/slurmrestd/", onboarding.slurmrestd, name="setup-slurmrestd"),
    path("setup/log/", onboarding.log, name="setup-log"),
    path("setup/source/", onboarding.source, name="setup-source"),
    path("setup/zone/", onboarding.zone, name="setup-zone"),
    path("setup/confirm/", onboarding.confirm, name="setup-confirm"),
    path("setup/again/", onboarding.again, name="setup-again"),
    path("setup/accounts/", onboarding.accounts, name="setup-accounts"),
    path("setup/publish/", onboarding.publish, name="setup-publish"),
    path("setup/discard/", onboarding.discard, name="setup-discard"),
]
rest: list[URLPattern] = [
    path("setup", setup.SetupView.as_view(), name="setup"),
    path("setup/policy", setup.SetupPolicyView.as_view(), name="setup-policy"),
    path("slurm-config", slurm_config.SlurmConfigView.as_view(), name="slurm-config"),
]
