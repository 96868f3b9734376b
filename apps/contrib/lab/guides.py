"""Guides to the pages of this plug-in."""

from __future__ import annotations

from apps.core.plugins import Addition
from apps.web.links.guides import Guide

GUIDES: dict[str, Addition[Guide]] = {
    "Advice": Addition(
        Guide(
            "Advice",
            "advice advice-draft",
            (
                ("advice", "lab.md#advice"),
                ("operators and resolution", "policy-settings.md#operators-and-resolution"),
                ("analysis", "analysis.md"),
            ),
            (
                "GET policies/{policy}/advice",
                "POST policies/{policy}/advice",
                "GET policies/{policy}/operators",
            ),
        ),
        after="Algorithm",
    ),
    "Lab": Addition(
        Guide(
            "Lab",
            "lab lab-ask lab-new lab-scenarios lab-tree experiment experiment-figure experiment-cancel "
            "experiment-repeat experiment-attach experiment-draft experiment-remove change-experiments",
            (("questions", "lab.md#questions"), ("results", "lab.md#results"), ("simulator", "simulator.md")),
            (
                "GET policies/{policy}/experiments",
                "POST policies/{policy}/experiments",
                "POST policies/{policy}/experiments/estimate",
                "GET policies/{policy}/experiments/{experiment}",
                "DELETE policies/{policy}/experiments/{experiment}",
                "POST policies/{policy}/experiments/{experiment}/cancel",
                "POST policies/{policy}/experiments/{experiment}/evidence",
                "GET policies/{policy}/experiments/{experiment}/variants/{variant}",
            ),
        ),
        after="Advice",
    ),
}
