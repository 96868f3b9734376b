"""Which part of which page is generated, and what is written where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from bench import sizing
from docsite import (
    algorithms,
    beside_slurm,
    commands,
    curves,
    deprecations,
    derived_state,
    examples,
    faults,
    person,
    schedulers,
    scopes,
    settings,
    site_commands,
    worked_tree,
)
from docsite.papers import page as papers

DOCS = REPOSITORY / "docs"
_END = "<!-- end -->"
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("settings.md", settings.page),
    "commands": ("commands.md", commands.page),
    "site-commands": ("schedulers.md", site_commands.snapshot),
    "scopes": ("rest.md", scopes.meanings),
    "routes": ("appendices/routes.md", scopes.tables),
    "renamed": ("appendices/renamed-fields.md", deprecations.renamed_fields),
    "person": ("privacy.md", person.sections),
    "algorithms": ("algorithms.md", algorithms.tree_algorithms),
    "operators": ("algorithms.md", algorithms.operators),
    "decay": ("algorithms.md", algorithms.decay_functions),
    "jobs": ("algorithms.md", algorithms.job_algorithms),
    "constants": ("scale.md", sizing.constants),
    "sizing": ("scale.md", sizing.table),
    "beside-slurm": ("scale.md", beside_slurm.page_part),
    "plan": ("appendices/growth.md", sizing.plan),
    "worked-tree": ("worked-tree.md", worked_tree.drawing),
    "papers": ("appendices/papers.md", papers.sections),
    "faults": ("appendices/faults.md", faults.table_of_faults),
    "slurm-releases": ("appendices/slurm.md", lambda: schedulers.releases_tried("slurm")),
    "slurm-changes": ("appendices/slurm.md", schedulers.slurm_changes),
    "slurm-facts": ("appendices/slurm.md", lambda: schedulers.facts("slurm")),
    "gridengine-releases": ("appendices/gridengine.md", lambda: schedulers.releases_tried("gridengine")),
    "htcondor-releases": ("appendices/htcondor.md", lambda: schedulers.releases_tried("htcondor")),
    "htcondor-facts": ("appendices/htcondor.md", lambda: schedulers.facts("htcondor")),
    "gridengine-facts": ("appendices/gridengine.md", lambda: schedulers.facts("gridengine")),
    "derived-state": ("appendices/derived-state.md", derived_state.register),
    "nginx": ("security.md", lambda: examples.shown("proxy/nginx.conf")),
    "caddy": ("security.md", lambda: examples.shown("proxy/Caddyfile")),
    "worked-order": ("worked-tree.md", worked_tree.order),
}


def files() -> Iterator[tuple[Path, str]]:
    """Every file with generated content, as it has to be."""
    for name in dict.fromkeys(page for page, _ in PARTS.values()):
        text = (DOCS / name).read_text(encoding="utf-8")
        for part, (page, make) in PARTS.items():
            if page == name:
                text = _replaced(text, part, make())
        yield DOCS / name, text
    for path, drawing in chain(curves.drawings(), papers.drawings()):
        yield DOCS / "pictures" / path, drawing


def _replaced(text: str, part: str, made: str) -> str:
    """The page with the part between its two comments replaced; ValueError where they are missing."""
    begin = f"<!-- generated: {part} -->"
    if begin not in text:
        raise ValueError(f"there is no {begin}")
    pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(_END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n\n{made}\n\n{_END}", text)
