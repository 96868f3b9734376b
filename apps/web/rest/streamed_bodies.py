"""Parsers that leave a request's body unread, for services that read it piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser


class StreamParser(BaseParser):
    """Leave the body unread: the import streams it, and it may be compressed."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return stream


class NDJSONStreamParser(StreamParser):
    media_type = "application/x-ndjson"
