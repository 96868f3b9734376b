"""Scenarios of simulations: those that are shipped, and files of the user with the traces beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from apps.contrib.lab import simulation
from apps.core.packing import Bounds, Damaged, Expands, packing_of, unpack_gzip
from apps.engine.errors import BadCase

SHIPPED = Path(simulation.__file__).parent / "scenarios"
MOST_LOG_BYTES = 1 << 30  # size limit of a log after decompression


def shipped_scenarios() -> dict[str, str]:
    """Notes by name of the scenarios that are part of the project."""
    notes = {}
    for path in sorted(SHIPPED.glob("*.json")):
        scenario = json.loads(path.read_text(encoding="utf-8"))
        notes[path.stem] = str(scenario.get("notes", ""))
    return notes


def is_shipped(name: str) -> bool:
    return "/" not in name and "\0" not in name and (SHIPPED / f"{name}.json").is_file()


def scenario_path(name: str) -> str:
    """Path of the shipped scenario with this name, unless a file has the name; the argument itself otherwise."""
    shipped = SHIPPED / f"{name}.json"
    return str(shipped) if is_shipped(name) and not Path(name).exists() else name


class TraceFiles(Mapping[str, str]):
    """Texts of logs by their name in a scenario. Searched in the scenario's and the current folder; read when used."""

    def __init__(self, scenario_files: list[str]) -> None:
        beside = [Path(name).parent for name in scenario_files if name != "-"]
        self.directories = list(dict.fromkeys([*beside, Path()]))
        self.read: dict[Path, str] = {}

    def __getitem__(self, name: str) -> str:
        if "\0" in name:
            raise KeyError(name)
        for directory in self.directories:
            path = directory / name
            if path.is_file():
                if path not in self.read:
                    self.read[path] = _text(path)
                return self.read[path]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return map(str, self.read)

    def __len__(self) -> int:
        return len(self.read)


def _text(path: Path) -> str:
    """Content of a file, decompressed if it is gzip."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_LOG_BYTES + 1)
        packing = packing_of(content)
        if packing == "zstd":
            raise BadCase(f"{path.name} is packed with zstd: unpack it, or pack it with gzip", place="trace")
        if packing == "gzip":
            content = unpack_gzip(content, Bounds(n_bytes=MOST_LOG_BYTES))
    except (OSError, Damaged) as problem:
        raise BadCase(f"{path.name} can't be read: {problem}", place="trace") from None
    except Expands:
        raise BadCase(
            f"{path.name} has more than {MOST_LOG_BYTES >> 20} MB when it is unpacked", place="trace"
        ) from None
    if len(content) > MOST_LOG_BYTES:
        raise BadCase(f"{path.name} has more than {MOST_LOG_BYTES >> 20} MB", place="trace")
    return content.decode("utf-8", errors="replace")
