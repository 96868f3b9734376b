"""Rules of the house that import contracts can't see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from django.apps import apps as installed
from django.db.models import ForeignKey
from grimp import build_graph

from apps.core.plugins import plugins
from fairshare_web.settings_file import OF_OTHERS
from tests.material import missing

ROOT = Path(__file__).resolve().parent.parent
# Who may import whom; a pair is on one level.
LAYERS = [
    "engine",
    "accounts",
    "runs",
    ("policies", "usage"),
    "mapping",
    "priorities",
    "explain",
    "federation",
    "analytics",
    ("web", "api"),
    ("gateway", "lab", "onboarding", "schedulers"),
    "starts",
    "notices",
    "packs",
    "cli",
]
FACES = {"web", "pages", "contrib", "cli"}
DOMAIN_ROOMS = sorted({path.parent.name for path in (ROOT / "apps").glob("*/__init__.py")} - FACES - {"core", "engine"})
OUR_MODULES = [path for path in sorted((ROOT / "apps").rglob("*.py")) if "migrations" not in path.parts]


def _level(room: str) -> int:
    for level, layer in enumerate(LAYERS):
        if room == layer or room in layer:
            return level
    raise AssertionError(f"{room} has no place in the layers")


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        missing(f"tracked files can't be listed: {listed.stderr.strip()}", "run the suite in a git clone")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_foreign_keys_point_downwards() -> None:
    ours = {config.label for config in installed.get_app_configs() if config.name.startswith("apps.")}
    upward = [
        f"{model._meta.label}.{field.name}"
        for model in installed.get_models()
        if model._meta.app_label in ours
        for field in model._meta.get_fields()
        if isinstance(field, ForeignKey)
        if (related := field.remote_field.model._meta.app_label) in ours
        if related != model._meta.app_label and _level(related) >= _level(model._meta.app_label)
    ]
    assert upward == []


def test_every_constraint_and_index_has_a_name_of_ours() -> None:
    rooms = [config for config in installed.get_app_configs() if config.name.startswith("apps.")]
    for config in rooms:
        room = config.label
        for model in config.get_models():
            for thing in [*model._meta.constraints, *model._meta.indexes]:
                if model.__name__ != "User":
                    assert thing.name.startswith(f"{room}_"), f"{model._meta.label}: {thing.name}"


def test_no_module_has_a_meaningless_name() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "base_utils", "core"}
    assert [path for path in OUR_MODULES if path.stem in nameless] == []


_NAMED = re.compile(r"(apps(?:\.\w+)+)(?::\w+)?")


@dataclass
class Source:
    """What the tests of this file want to know of a parsed file; its nodes would fill the memory of the process."""

    imports: set[str] = field(default_factory=set)  # also those that settings and registries name in a text
    classes: list[str] = field(default_factory=list)
    reads_time: list[int] = field(default_factory=list)  # lines
    makes_signals: bool = False
    reads_rights: list[str] = field(default_factory=list)  # line and field


@cache
def _read(path: Path) -> Source:
    """Parsed once a process."""
    found = Source()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant):
            if named := _NAMED.fullmatch(str(node.value)):
                found.imports |= {named[1], named[1].rpartition(".")[0]}
        elif isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        elif isinstance(node, ast.Call):
            found.makes_signals |= isinstance(node.func, ast.Name) and node.func.id == "Signal"
        elif isinstance(node, ast.Attribute):
            if _reads_time(node):
                found.reads_time.append(node.lineno)
            if _reads_rights(node):
                found.reads_rights.append(node.attr)
    return found


# Fields that say what a token is bound to, and who is an administrator; `accounts/actor.py` decides by them.
RIGHTS = {"policy_slug", "subtree_uid", "source_slug", "is_superuser"}


def _reads_rights(node: ast.Attribute) -> bool:
    holder = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    return node.attr == "is_superuser" or (node.attr in RIGHTS and holder in {"token", "bounds", "auth"})


def _reads_time(node: ast.Attribute) -> bool:
    named = isinstance(node.value, ast.Name) and node.value.id in {"timezone", "datetime", "date"}
    return named and node.attr in {"now", "utcnow", "today"}


def test_templates_of_a_page_lie_in_the_folder_of_its_feature() -> None:
    for kind in ("pages", "contrib"):
        folders = {path.name for path in (ROOT / "templates" / kind).iterdir() if path.is_dir()}
        features = {path.stem for path in (ROOT / "apps" / kind).iterdir()}
        assert folders - features == set()


def test_plugins_import_those_that_they_require_or_extend() -> None:
    """And they declare no more: what is required for nothing can't be left out."""
    imported: dict[str, set[str]] = {plugin.name: set() for plugin in plugins()}
    for path in OUR_MODULES:
        name = ".".join(path.relative_to(ROOT).parts[:3])
        if name in imported:
            others = {".".join(module.split(".")[:3]) for module in _read(path).imports}
            imported[name] |= others & set(imported) - {name}
    declared = {plugin.name: {*plugin.requires, *plugin.extends} for plugin in plugins()}
    assert imported == declared


@pytest.mark.deep
def test_no_module_is_imported_by_nobody() -> None:
    found_by_django = re.compile(
        r"apps(\.contrib|\.web)?\.\w+\.(__main__|apps|admin|urls|templatetags\.\w+|management\.commands\.\w+)"
    )
    studied_by_hand = re.compile(r"apps\.engine\.analysis\.\w+")  # docs/appendices/analysis.md says how
    found_by_migrations = re.compile(r"apps\.core\.create_tables")
    ways = (found_by_django, studied_by_hand, found_by_migrations)
    loaded = re.compile("|".join(each.pattern for each in ways))
    imported = {
        name
        for path in [*OUR_MODULES, *(ROOT / "fairshare_web").glob("*.py"), ROOT / "manage.py"]
        for name in _read(path).imports
    }
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in OUR_MODULES if path.stem != "__init__"
    ]
    assert len(modules) > 500
    assert [name for name in modules if name not in imported and not loaded.fullmatch(name)] == []


def test_modules_have_no_import_cycles_even_for_types_or_inside_functions() -> None:
    graph = build_graph("apps", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    TopologicalSorter(imports).prepare()  # a CycleError names the circle


def test_figures_import_no_selectors() -> None:
    selector = re.compile(r"apps\.(?!.*\bfigures\b|engine\.).*\.(get|list|load|open)_\w+")
    files = [path for path in OUR_MODULES if "figures" in {path.stem, path.parent.name}]
    assert len(files) > 20
    found = {f"{path.relative_to(ROOT)}: {name}" for path in files for name in _read(path).imports}
    assert {each for each in found if selector.search(each)} == set()


def test_tests_mirror_the_folders_of_the_code() -> None:
    """Folders of a room's tests are those of the room; `tests/agent`, `browser` and others cross rooms."""
    rooms = {path.parent.name for path in (ROOT / "apps").glob("*/__init__.py")}
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    of_rooms = {each for each in folders if each.parts and each.parts[0] in rooms and each.name != "browser"}
    assert [each for each in sorted(of_rooms) if not (ROOT / "apps" / each).is_dir()] == []


def test_the_engine_needs_only_numpy_and_the_standard_library() -> None:
    foreign = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "apps/engine").rglob("*.py")
        for name in _read(path).imports
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy"}
        if not name.startswith("apps.engine")
        if (path.name, name.partition(".")[0]) != ("fast.py", "numba")
    }
    assert foreign == set()


def test_domain_rooms_import_neither_rest_nor_figures_nor_requests() -> None:
    faces = re.compile(r"(rest_framework|drf_spectacular|plotly|django\.shortcuts|django\.http)\b.*")
    known = [
        f"{path.relative_to(ROOT)}: {name}"
        for room in ("engine", *DOMAIN_ROOMS)
        for path in (ROOT / "apps" / room).rglob("*.py")
        if path.name != "admin.py"  # Django's own pages
        for name in sorted(_read(path).imports)
        if faces.fullmatch(name)
    ]
    assert known == []


def test_commands_are_in_the_command_line_or_in_a_plugin() -> None:
    rooms = {path.relative_to(ROOT / "apps").parts[0] for path in (ROOT / "apps").rglob("management/commands/*.py")}
    assert rooms == {"cli", "contrib"}


def test_no_class_is_a_manager_or_a_mixin() -> None:
    towers = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in OUR_MODULES
        for name in _read(path).classes
        if re.search(r"(Manager|Mixin|Helper|Util)s?$", name)
    ]
    assert towers == []


def test_migrations_are_named() -> None:
    automatic = [
        path
        for path in (ROOT / "apps").rglob("migrations/*.py")
        if re.search(r"_auto_|(?<!/0001)_initial", path.as_posix())
    ]
    assert automatic == []


def test_the_clock_is_read_in_one_module() -> None:
    readers = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in OUR_MODULES
        if path.name != "clock.py"
        for line in _read(path).reads_time
    ]
    assert readers == []


READS_RIGHTS = {
    "apps/accounts/actor.py": RIGHTS,
    "apps/accounts/services.py": RIGHTS,  # makes and verifies tokens
    "apps/accounts/sign_in/second_factor.py": {"is_superuser"},  # who has to have one
    "apps/policies/access/authority.py": {"is_superuser"},  # of those who gave a grant
    "apps/policies/access/role_holders.py": {"is_superuser"},  # of a person who is asked about
    "apps/policies/access/reader_grants.py": RIGHTS,  # of a token that is being made
    "apps/pages/tokens/presenters.py": RIGHTS,
    "apps/explain/account_path.py": RIGHTS,  # shows the caller the token's own bounds
}


def test_bounds_and_administrators_are_decided_by_the_actor() -> None:
    readers = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in OUR_MODULES
        for name in _read(path).reads_rights
        if name not in READS_RIGHTS.get(str(path.relative_to(ROOT)), set())
    }
    assert readers == set()


def test_there_is_one_custom_signal() -> None:
    made = [path for path in OUR_MODULES if _read(path).makes_signals]
    assert [str(path.relative_to(ROOT)) for path in made] == ["apps/policies/publishing/revisions.py"]


def test_every_setting_is_documented() -> None:
    source = "".join(
        path.read_text(encoding="utf-8") for path in [*OUR_MODULES, *(ROOT / "fairshare_web").glob("*.py")]
    )
    named = set(
        re.findall(r"[\"'](FAIRSHARE_[A-Z_]+|DATABASE_URL|CELERY_BROKER_URL|SECRET_KEY(?:_FALLBACKS)?)[\"']", source)
    )
    internal = {"FAIRSHARE_SNAPSHOT_POLL_S", "FAIRSHARE_TOKEN_PATIENCE_S"}
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    asked = named - internal - OF_OTHERS
    assert sorted(name for name in asked if f"| `{name}` |" not in page) == []


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    commands = [path.stem for path in (ROOT / "apps").rglob("management/commands/[a-z]*.py")]
    assert [command for command in commands if f"| `{command}` |" not in page] == []


def test_documentation_links_resolve() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_tracked_files_name_no_machine_and_no_registry() -> None:
    own_checkout = str(ROOT)
    suspects = re.compile(rf"{re.escape(own_checkout)}|pypi\.org|pythonhosted|registry\.npmjs|index-url [^$]", re.I)
    named = [
        str(path.relative_to(ROOT))
        for path in _tracked("*.py", "*.toml", "*.lock", "*.md", "*.html", "*.js", "*.css", "Makefile", ".ci/*")
        if path.name != "test_architecture.py" and suspects.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert named == []


def test_no_real_trace_is_tracked() -> None:
    assert [path.name for path in _tracked("*.swf", "*.swf.gz", "*.log.gz", "*.events.gz")] == []


def test_templates_carry_no_inline_style_or_script() -> None:
    inline = re.compile(
        r"\sstyle=|<style|<script(?![^>]*\ssrc=)(?![^>]*application/json)|\son[a-z]+=|\|safe\b|hx-on", re.I
    )
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0).strip()}"
        for path in (ROOT / "templates").rglob("*.html")
        if (match := inline.search(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_only_three_modules_mark_markup_as_safe() -> None:
    """Elements of drawings, thousands a page, are escaped there: tests/web/figures/test_elements.py.

    The others hold guides, whose text is the release's own, and put a term into what a template has rendered.
    """
    marked = [
        str(path.relative_to(ROOT))
        for path in OUR_MODULES
        if re.search(r"\bmark_safe\b|\bSafeString\(", path.read_text(encoding="utf-8"))
    ]
    assert marked == [
        "apps/pages/help/documents.py",
        "apps/web/figures/elements.py",
        "apps/web/templatetags/components.py",
    ]


def test_each_system_check_has_an_id_of_its_own() -> None:
    ids = [
        each for path in OUR_MODULES for each in re.findall(r"fairshare\.[EW]\d{3}", path.read_text(encoding="utf-8"))
    ]
    assert len(ids) >= 10
    assert [name for name, n in Counter(ids).items() if n > 1] == []


@pytest.mark.deep
def test_no_module_imports_what_a_library_keeps_to_itself() -> None:
    """Such a module changes without notice, in any release."""
    ours = ("apps", "fairshare_web")
    private = []
    for path in _tracked("apps/**/*.py", "fairshare_web/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and names:
                names += [f"{names[0]}.{alias.name}" for alias in node.names]
            for name in names:
                parts = name.split(".")
                is_private = any(part == "internal" or (part.startswith("_") and part[1:2] != "_") for part in parts)
                if parts[0] not in ours and is_private and name != "__future__.annotations":
                    private.append((path.name, name))
    assert private == []
