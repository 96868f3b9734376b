"""First migrations of apps: all tables of one are a single operation, which takes Django a fraction of the time.

Between two operations, Django renders the class of each related model again. Nearly all are related, by their users.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class CreateTables(Operation):
    reversible = False

    def __init__(self, *operations: Operation) -> None:
        self.operations = operations

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # else each of the operations renders the classes
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for operation in self.operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return "Create the tables"


def create_tables(*operations: Operation) -> list[Operation]:
    """operations: of new models, and SQL."""
    return [CreateTables(*operations)]
