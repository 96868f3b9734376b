"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Schedulers, *Connect a scheduler*": Addition(
        Guide(
            "Schedulers, *Connect a scheduler*",
            "schedulers scheduler scheduler-new scheduler-connect scheduler-settings scheduler-remove",
            (("connect a scheduler", "schedulers.md#connect"),),
            ("GET schedulers",),
        ),
        after="Sources and quality, *Usage upload*",
    ),
    "Compare with the scheduler": Addition(
        Guide(
            "Compare with the scheduler",
            "scheduler-shadow",
            (("shadow mode", "schedulers.md#shadow-mode"),),
            ("GET schedulers/{scheduler}/differences",),
        ),
        after="Schedulers, *Connect a scheduler*",
    ),
    "Shares of a scheduler": Addition(
        Guide(
            "Shares of a scheduler",
            "scheduler-shares",
            (
                ("shares instead of priorities", "schedulers.md#shares-instead-of-priorities"),
                ("follow Slurm", "recipe-slurm.md#follow-slurm"),
            ),
            ("GET schedulers/{scheduler}/shares",),
        ),
        after="Compare with the scheduler",
    ),
    "Limits of accounts in a scheduler": Addition(
        Guide(
            "Limits of accounts in a scheduler",
            "scheduler-limits",
            (("limits of accounts", "limits-out.md"),),
            ("GET schedulers/{scheduler}/limits",),
        ),
        after="Shares of a scheduler",
    ),
    "Queue, *Why does my job wait?*": Addition(
        Guide(
            "Queue, *Why does my job wait?*",
            "job-why job-why-of",
            (("why a job waits", "schedulers.md#why-does-a-job-wait"), ("when it starts", "user.md#when-a-job-starts")),
            ("GET policies/{policy}/why",),
        ),
        after="Limits of accounts in a scheduler",
    ),
}
