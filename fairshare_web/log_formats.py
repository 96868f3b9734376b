"""Formats of log lines: text for people, or JSON for a collector; both name request and run, neither has secrets."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from apps.core import log_context
from apps.core.masking import mask

#: What lines about a request or a run have beside the message.
DETAILS = ("method", "route", "status", "kind", "state", "duration_ms")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        text, ids = super().formatMessage(record), _ids_of(record)
        return f"{text} ({', '.join(f'{name} {value}' for name, value in ids.items())})" if ids else text

    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


class JsonLines(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, and where they are known ids, details and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        at_s = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at_s}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": mask(record.getMessage()),
            **{f"{name}_id": value for name, value in _ids_of(record).items()},
            **_details_of(record),
        }
        if record.exc_info:
            line["traceback"] = mask(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = mask(self.formatStack(record.stack_info))
        return json.dumps(line, ensure_ascii=False, default=str)


def _ids_of(record: logging.LogRecord) -> dict[str, Any]:
    """Of Django's own lines the request is in the record: they are written when it has ended."""
    asked = getattr(getattr(record, "request", None), "META", {}).get("HTTP_X_REQUEST_ID", "")
    ids = {"run": log_context.run_id.get(), "request": asked or log_context.request_id.get()}
    return {name: value for name, value in ids.items() if value}


def _details_of(record: logging.LogRecord) -> dict[str, Any]:
    request = getattr(record, "request", None)
    match = getattr(request, "resolver_match", None)
    details = {
        "method": getattr(request, "method", None),
        "route": f"/{match.route}" if match else None,
        "status": getattr(record, "status_code", None),
    }
    details |= {name: getattr(record, name) for name in DETAILS if hasattr(record, name)}
    return {name: value for name, value in details.items() if value is not None}
