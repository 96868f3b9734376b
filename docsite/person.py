"""What `manage.py about_person` gives out, from the tables that it reads."""

from __future__ import annotations

from apps.accounts.about_person import LEFT_OUT
from apps.accounts.about_person import sections as sections_of_export
from docsite.markdown import code, table


def sections() -> str:
    rows = [[code(label), section.about] for label, section in sections_of_export().items()]
    left_out = "\n".join(f"- {code(label)}: {why}" for label, why in LEFT_OUT.items())
    return f"{table(['section', 'rows are'], rows)}\n\nLeft out:\n\n{left_out}"
