"""Scripts and styles of a site are joined into few files, in which each module runs once."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from fairshare_web.joined_files import join_scripts, join_sheets
from fairshare_web.static_files import StaticFiles

REPOSITORY = Path(__file__).resolve().parents[3]
LARGEST_KB = 60


def own_modules() -> dict[str, str]:
    places = [REPOSITORY / "static", *(REPOSITORY / "apps").rglob("static")]
    paths = [(place, path) for place in places for path in (place / "js").rglob("*.js")]
    return {path.relative_to(place).as_posix(): path.read_text(encoding="utf-8") for place, path in paths}


def collected(folder: Path, sources: Mapping[str, str]) -> dict[str, str]:
    """The texts of the files that a site would serve, by the names that pages know."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    storage = StaticFiles(location=folder, base_url="/static/")
    list(storage.post_process({name: (storage, name) for name in sources}))
    return {name: (folder / file).read_text(encoding="utf-8") for name, file in storage.hashed_files.items()}


def test_modules_that_the_same_pages_need_are_one_file() -> None:
    sources = {
        "js/frame.js": 'import "./shell.js";\n',
        "js/shell.js": "export const say = (text) => text;\n",
        "js/tree.js": 'import { say as tell } from "./shell.js";\nimport { row } from "./rows.js";\ntell(row());\n',
        "js/draft.js": 'import * as rows from "./rows.js";\nimport { only } from "./part/only.js";\nonly(rows.row);\n',
        "js/rows.js": "export async function row() {}\n",
        "js/part/only.js": "export class only {}\n",
    }
    files, file_of = join_scripts(sources)
    assert file_of == {
        "js/frame.js": "js/frame.js",
        "js/shell.js": "js/frame.js",
        "js/tree.js": "js/tree.js",
        "js/rows.js": "js/rows.js",
        "js/draft.js": "js/draft.js",
        "js/part/only.js": "js/draft.js",
    }
    assert set(files) == set(file_of.values())
    assert re.findall(r'from "(.*?)"', files["js/tree.js"]) == ["./frame.js", "./rows.js"]
    assert files["js/draft.js"].index("class only") < files["js/draft.js"].index("only(rows.row)")


def test_a_script_that_is_no_module_is_left_as_it_is() -> None:
    sources = {"js/print.js": "addEventListener('load', () => print());\n"}
    assert join_scripts(sources) == (sources, {"js/print.js": "js/print.js"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("let n = 0;\nexport let shown = n;\n", "js/a.js, line 2.*export let shown"),
        ("export default 3;\n", "js/a.js, line 1.*export default"),
        ("export { x };\n", "js/a.js, line 1"),
        ("const y = 1;\n\nconst x = await fetch(y);\n", "js/a.js, line 3.*await"),
        ('import x from "./b.js";\n', "js/a.js, line 1"),
        ('const x = import("./b.js");\n', "js/a.js, line 1"),
        ("const x = import.meta.url;\n", "js/a.js, line 1"),
        ('import { gone } from "./gone.js";\n', "js/a.js imports js/gone.js, which isn't there"),
        ('import { gone } from "./b.js";\n', "js/a.js imports gone from js/b.js, which doesn't export it"),
        ('import { c } from "./c.js";\nexport const a = c;\n', "in a circle: js/a.js → js/c.js → js/a.js"),
    ],
)
def test_what_can_not_be_joined_is_refused_with_its_place(text: str, words: str) -> None:
    sources = {
        "js/a.js": text,
        "js/b.js": "export const b = 1;\n",
        "js/c.js": 'import { a } from "./a.js";\nexport const c = a;\n',
    }
    if "circle" not in words:
        del sources["js/c.js"]
    with pytest.raises(ImproperlyConfigured, match=words):
        join_scripts(sources)


@given(st.lists(st.sets(st.integers(0, 11), max_size=4), min_size=1, max_size=12))
def test_each_module_is_in_one_file_after_all_that_it_imports(needs: list[set[int]]) -> None:
    """Modules of random sites; module n imports some of those before it."""
    sources = {}
    for n, others in enumerate(needs):
        lines = [f'import {{ v{other} }} from "./{other}.js";' for other in sorted(others) if other < n]
        sources[f"js/{n}.js"] = "\n".join([*lines, f"export const v{n} = {n};", ""])
    sources["js/frame.js"] = 'import { v0 } from "./0.js";\nv0();\n'
    files, file_of = join_scripts(sources)
    order = {file: re.findall(r"^// (js/\d+\.js)$", text, re.M) for file, text in files.items()}
    assert sorted(name for names in order.values() for name in names) == sorted(set(sources) - {"js/frame.js"})
    asked = {file: set(re.findall(r'from "\./(.*?)"', text)) for file, text in files.items()}
    for n, others in enumerate(needs):
        name, own = f"js/{n}.js", file_of[f"js/{n}.js"]
        for other in (f"js/{each}.js" for each in others if each < n):
            if file_of[other] == own:
                assert order[own].index(other) < order[own].index(name)
            else:
                assert file_of[other].removeprefix("js/") in asked[own]


def test_all_own_modules_are_joined_and_no_file_is_large() -> None:
    files, file_of = join_scripts(own_modules())
    kilobytes = {name: len(gzip.compress(text.encode())) / 1e3 for name, text in files.items()}
    assert max(kilobytes.values()) <= LARGEST_KB, kilobytes
    assert file_of["js/live.js"] == file_of["js/shell.js"] == "js/frame.js"
    assert file_of["js/figures/theme.js"] == "js/figures/index.js"


def test_pages_find_modules_in_the_files_that_hold_them(tmp_path: Path) -> None:
    """Under its plain name beside the one with its digest a module would run twice on a page."""
    sources = {
        "js/part/index.js": 'import { say } from "../shell.js";\nsay();\n',
        "js/part/live.js": 'import "./index.js";\n',
        "js/frame.js": 'import "./shell.js";\n',
        "js/shell.js": "export const say = () => {};\n",
    }
    files = collected(tmp_path, sources)
    assert files["js/shell.js"] == files["js/frame.js"]
    assert re.search(r'from "\.\./frame\.[0-9a-f]{12}\.js"', files["js/part/index.js"])
    assert re.search(r'from "\./index\.[0-9a-f]{12}\.js"', files["js/part/live.js"])
    assert not (tmp_path / "js" / "shell.js").exists()


def test_plotly_is_compiled_while_it_arrives(tmp_path: Path) -> None:
    """Else Chromium compiles it twice, the second time in the way of whoever reads: a third of a second."""
    plotly = "/* a licence */ window.Plotly = {};"
    files = collected(tmp_path, {"vendor/plotly-basic.min.js": plotly, "vendor/htmx.min.js": "let a;"})
    assert files["vendor/plotly-basic.min.js"] == f"//# allFunctionsCalledOnLoad\n{plotly}"
    assert files["vendor/htmx.min.js"] == "let a;"


def test_a_style_sheet_takes_in_those_that_it_imports(tmp_path: Path) -> None:
    sources = {
        "css/frame.css": '/* all */\n@import "base.css";\n@import "../vendor/other.css";  /* theirs */\na {}\n',
        "css/base.css": "b { top: 1px; }\n",
        "vendor/other.css": "i { top: 2px; }\n",
    }
    files = collected(tmp_path, sources)
    assert files["css/frame.css"] == "/* all */\nb { top: 1px; }\ni { top: 2px; }\n/* theirs */\na {}\n"
    assert files["css/base.css"] == sources["css/base.css"]


def test_an_imported_style_sheet_that_is_missing_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"css/frame\.css imports css/gone\.css, which isn't there"):
        join_sheets({"css/frame.css": '@import "gone.css";\n'})
