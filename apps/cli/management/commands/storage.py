"""`manage.py storage`: print the storage in use, and the storage needed in a year."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from apps.core.clock import now
from apps.core.operator_commands import OperatorCommand
from apps.series.storage_growth import files_holding, list_holdings, shown_size, total


class Command(OperatorCommand):
    help = "Prints the size of database and files, and their size in a year at the growth of the last 30 days."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON, in bytes")

    def handle(self, *args: Any, **options: Any) -> None:
        holdings = [*list_holdings(at=now()), files_holding()]
        used, needed = total(holdings)
        if options["json"]:
            answer = {"holdings": [asdict(holding) for holding in holdings], "bytes": used, "bytes_in_a_year": needed}
            self.stdout.write(json.dumps(answer))
            return
        self.stdout.write(f"{'':16}{'rows':>14}{'now':>12}{'in a year':>14}{'':2}")
        for holding in holdings:
            rows = f"{holding.n_rows:,}" if holding.n_rows else ""
            self.stdout.write(
                f"{holding.name:16}{rows:>14}{shown_size(holding.n_bytes):>12}{shown_size(holding.bytes_in_a_year):>14}"
            )
        self.stdout.write(f"{'together':16}{'':>14}{shown_size(used):>12}{shown_size(needed):>14}")
