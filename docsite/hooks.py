"""What mkdocs does beside its configuration: CONTRIBUTING.md, which lies beside docs/, becomes a page of the site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_BESIDE = {"../CONTRIBUTING.md": "contributing.md", "../README.md": "index.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    text = (Path(config.docs_dir).parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "contributing.md", content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    for outside, page in _BESIDE.items():
        markdown = markdown.replace(f"]({outside}", f"]({page}")
    return markdown
