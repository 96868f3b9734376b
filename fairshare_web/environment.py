"""Typed readers of the environment: a wrong value stops the start and names the variable."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def env_str(name: str, *, default: str) -> str:
    """NAME, or the content of the file that NAME_FILE names."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE={path} can't be read: {error.strerror}.") from error
    return os.environ.get(name, default)


def env_bool(name: str, *, default: bool) -> bool:
    value = env_str(name, default="1" if default else "0").strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a yes or a no: use 1 or 0.")


def env_int(name: str, *, default: int) -> int:
    value = env_str(name, default=str(default))
    try:
        return int(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number.") from error


def env_list(name: str, *, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default=default).split(",") if part.strip()]


def env_time_zone(name: str, *, default: str) -> str:
    value = env_str(name, default=default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a time zone; example: Europe/Stockholm.") from error
    return value
