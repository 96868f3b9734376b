"""A report as text of one screen, or as JSON; without any secret of the settings. Works without settings, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from apps.cli.doctor.check import Report
from apps.core.counts import counted

_SHORTEST_SECRET = 4
_SECRET_NAMES = (
    *("SECRET_KEY", "FAIRSHARE_PSEUDONYM_KEY", "EMAIL_HOST_PASSWORD", "FAIRSHARE_LDAP_BIND_PASSWORD"),
    *("FAIRSHARE_OIDC_CLIENT_SECRET", "SECRET_KEY_FALLBACKS", "FAIRSHARE_TOKEN_PEPPERS"),
)


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
    return without_secrets(json.dumps(answer, ensure_ascii=False))


def report_text(report: Report) -> str:
    return without_secrets("\n".join(_lines(report)))


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


def without_secrets(text: str) -> str:
    """Without values of secret settings, of which an error of a library may quote one."""
    for secret in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(secret, "•••")
    return text


def _secrets() -> set[str]:
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    from apps.core.addresses import split_address

    try:
        values = [getattr(settings, name, "") for name in _SECRET_NAMES]
        values += [database.get("PASSWORD") or "" for database in settings.DATABASES.values()]
        values.append(split_address(str(settings.CELERY_BROKER_URL)).password or "")
    except (ImproperlyConfigured, OSError):
        return set()
    texts = [text for value in values for text in (value if isinstance(value, list | tuple) else [str(value)])]
    return {text for text in texts if len(text) >= _SHORTEST_SECRET}
