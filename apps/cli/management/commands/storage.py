"""`manage.py storage`: print the storage in use, and the storage needed in a year."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.series.storage_growth import Holding, list_holdings, total


class Command(OperatorCommand):
    help = "Prints the size of database and files, and their size in a year at the growth of the last 30 days."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON, in bytes")

    def handle(self, *args: Any, **options: Any) -> None:
        holdings = [*list_holdings(at=now()), _files()]
        used, needed = total(holdings)
        if options["json"]:
            answer = {"holdings": [asdict(holding) for holding in holdings], "bytes": used, "bytes_in_a_year": needed}
            self.stdout.write(json.dumps(answer))
            return
        self.stdout.write(f"{'':16}{'rows':>14}{'now':>12}{'in a year':>14}{'':2}")
        for holding in holdings:
            rows = f"{holding.n_rows:,}" if holding.n_rows else ""
            self.stdout.write(
                f"{holding.name:16}{rows:>14}{_size(holding.n_bytes):>12}{_size(holding.bytes_in_a_year):>14}"
            )
        self.stdout.write(f"{'together':16}{'':>14}{_size(used):>12}{_size(needed):>14}")


def _files() -> Holding:
    """Unfinished uploads, and copies of snapshots for a start without database."""
    folder = Path(settings.VAR)
    sizes = [path.stat().st_size for name in ("uploads", "snapshots") for path in (folder / name).glob("**/*")]
    return Holding("files", len(sizes), sum(sizes), len(sizes), sum(sizes))


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
