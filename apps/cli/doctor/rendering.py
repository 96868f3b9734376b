"""A report as text of one screen, or as JSON; without any secret of the settings. Works without settings, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from apps.cli.doctor.check import Report
from apps.core.counts import counted

_SHORTEST_SECRET = 4  # characters: a masked word does less harm here than in a log


def report_json(report: Report) -> str:
    answer: dict[str, Any] = {
        "status": "findings" if report.needs_attention else "well",
        "at": report.at and report.at.isoformat(),
        "release": report.release,
        "sections": {
            section.name: {
                "facts": section.facts,
                "unchecked": section.unchecked,
                "findings": [asdict(finding) for finding in section.findings],
            }
            for section in report.sections
        },
    }
    return _without_secrets(json.dumps(answer, ensure_ascii=False))


def report_text(report: Report) -> str:
    return _without_secrets("\n".join(_lines(report)))


def _lines(report: Report) -> Iterator[str]:
    for section in report.sections:
        texts = [*section.facts, *([f"not checked: {section.unchecked}"] if section.unchecked else [])]
        for i, text in enumerate(texts or ["-"]):
            yield f"{'' if i else section.name:11}{text}"
    yield ""
    for finding in report.findings:
        yield f"{finding.level:5}{finding.name}: {finding.message}"
        yield f"{'':5}{finding.remedy}"
    n = sum(finding.level != "info" for finding in report.findings)
    yield f"{counted(n, 'finding needs', 'findings need')} attention." if n else "All is well."


def _without_secrets(text: str) -> str:
    """An error of a library may quote one. Settings that refuse to start have none to compare with."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    from apps.core.masking import mask_values

    if not settings.configured:  # asking them would make an instance where none is
        return text
    try:
        return mask_values(text, shortest=_SHORTEST_SECRET)
    except (ImproperlyConfigured, OSError):
        return text
