"""What templates of packs take: sections with their drawings, and the file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.dashboard.shell import lines
from apps.figures.elements import element, joined
from apps.packs.layout import Section, made_of, sections_of, svg_of, title_of
from apps.packs.links import Sealed


@dataclass(frozen=True)
class Drawn:
    section: Section
    drawing: SafeString


def context_of(sealed: Sealed) -> dict[str, Any]:
    pack = sealed.document
    drawn = [
        Drawn(one, svg_of(one.bars, one.title) if one.bars is not None else joined(())) for one in sections_of(pack)
    ]
    return {
        "pack": pack,
        "title": title_of(pack),
        "made": made_of(pack),
        "sections": drawn,
        "digest": sealed.digest,
        "fingerprint": sealed.fingerprint,
    }


def html_file(sealed: Sealed) -> str:
    """One file with its style in it: it is saved, sent and printed, and asks for nothing else."""
    found = finders.find("css/packs.css")
    with open(str(found), encoding="utf-8") as file:
        style = element("style", file.read())  # it holds nothing that HTML escapes
    return render_to_string("packs/document.html", {**context_of(sealed), "style": style})


def file_name(pack: Mapping[str, Any], form: str) -> str:
    return f"pack-{pack['policy']}-{lines.name_slug(pack['name'])}-{pack['from'][:7]}-{pack['to'][:7]}.{form}"
