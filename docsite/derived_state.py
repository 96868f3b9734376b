"""The appendix derived-state.md: the register of derived state, from what each module declares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import apps
from apps.core.derived_state import DerivedState, Kept
from docsite.markdown import code, table

_ORDER = (Kept.TABLE, Kept.FILE, Kept.MEMORY)

# Functions whose results depend on their arguments and the code alone: they end with the process.
OF_CODE_ALONE = frozenset(
    {
        "accounts.sign_in.sessions._hash_of",
        "cli.sample.jobs._unended_jobs",
        "contrib.jobs.algorithms.gridengine.sharetree.decay_factor",
        "contrib.lab.comparison.replayed_settings.orders_like",
        "contrib.lab.operators.figure_numbers._fraction",
        "contrib.lab.operators.records.columns_of",
        "contrib.schedulers.pages.views.program_file",
        "contrib.schedulers.wait_reasons._rule_of",
        "core.masking._pattern_of",
        "core.outbound_proxy.parse_proxy",
        "core.plugins._plugins_among",
        "core.release.code_digest",
        "core.release.release_digest",
        "core.release.revision",
        "engine.algorithms.algorithms_of_packages",
        "engine.analysis.properties.measured_algorithms",
        "engine.analysis.properties.measured_operators",
        "engine.fast._digest_of_sources",
        "engine.fast._plain_names",
        "engine.operators.operators_of_packages",
        "mapping.rules.rule._glob",
        "pages.audit.text.sentences",
        "pages.audit.text.topics",
        "pages.convergence.figures.labels._day_text",
        "pages.convergence.figures.over_time._formatted",
        "pages.help.documents._rendered",
        "pages.help.documents.contents",
        "pages.sign_in.trusted_header._is_proxy",
        "pages.tree.live.views._decoded",
        "pages.tree.live.views._live_sql",
        "policies.access.scope._policies_and_grants",
        "policies.formats.registry.load_package_formats",
        "policies.formats.sacctmgr_dump._file_key",
        "priorities.projections._one_projects_drafts",
        "priorities.sentences.numbers._format",
        "priorities.serving.named_entries._given_fields",
        "runs.presence.fingerprints",
        "runs.worker_identity._holder_of",
        "runs.worker_identity.own_machine",
        "usage.parsers.package_formats.load_package_formats",
        "usage.parsers.sacct_columns.name_of",
        "usage.parsers.slurm_states._accounted",
        "usage.parsers.slurm_states._listed",
        "usage.parsers.slurm_states._words",
        "usage.parsers.slurm_values._offsets",
        "usage.parsers.xml_records._local",
        "web.middleware.early_answers._early_answers",
        "web.templatetags.plugin_parts._links_of",
        "web.figures.scales.day_ticks",
        "web.figures.used_and_target._balance",
        "web.figures.used_and_target._percent_text",
        "web.figures.used_and_target._sentence",
        "web.figures.used_and_target._template",
        "web.texts.glossary.terms",
        "web.links.guides._by_route",
        "web.links.guides.guides",
        "web.links.guides.rest_of",
        "web.texts.operator_choices._orders_like_relative",
        "web.rest.body_limits._route_of",
        "web.rest.body_limits.limits_by_route",
        "web.rest.deprecations._deprecated_by_word",
        "web.rest.deprecations.deprecated",
        "web.rest.deprecations.renamed_fields",
        "web.rest.records.serializer_of",
        "web.shell.lines._around_uid",
        "web.shell.live_state._frame_sql",
        "web.shell.live_state.marks_sql",
        "web.shell.navigation.frame_parts",
        "web.shell.places.all_tabs",
        "web.shell.places.counters",
        "web.shell.places.keyed_tabs",
        "web.shell.places.tab_of",
        "web.shell.places.tabs_of",
        "web.templatetags.listings._marked",
        "web.templatetags.marks.icon",
        "web.links.terminal_client.client_file",
    }
)


def declared() -> Iterator[tuple[str, DerivedState]]:
    """The name of the module, below `apps`, and each state that it declares."""
    for name in module_names():
        for state in getattr(sys.modules[name], "DERIVED_STATE", ()):
            yield name.removeprefix("apps."), state


def module_names() -> list[str]:
    """Every module of `apps`, imported, but migrations and programs."""
    names = [
        module.name
        for module in walk_packages(apps.__path__, "apps.")
        if ".migrations" not in module.name and not module.name.endswith("__main__")
    ]
    for name in names:
        import_module(name)
    return sorted(names)


def register() -> str:
    """The table of all declared states."""
    rows = sorted(declared(), key=lambda row: (_ORDER.index(row[1].kept), row[0]))
    return table(
        ("what", "kept in", "found by", "made from", "holds for", "ends by"),
        [
            (
                state.holds,
                f"{state.kept}: " + ", ".join(code(_place(module, name, state)) for name in state.names),
                state.key,
                state.inputs,
                state.range,
                state.ends,
            )
            for module, state in rows
        ],
    )


def _place(module: str, name: str, state: DerivedState) -> str:
    return f"{module}.{name}" if state.kept == Kept.MEMORY else name
