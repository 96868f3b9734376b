"""Importing a whole policy of 100,000 entries from a file.

The anchor is PyYAML alone: its C parser's events for that file, thrown away. What comes on top of that is ours.
"""

from __future__ import annotations

import yaml

from apps.policies.files.import_export import FileImport
from bench.clock import processor_s
from bench.report import BenchLine

N_GROUPS, N_USERS = 1_000, 99
LONGEST_S = 30.0
SLUG = "bench-formats"


def measure() -> list[BenchLine]:
    """The first import, and one of 500 changed shares."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.policies.files.import_export import import_policy
    from apps.policies.models import Policy
    from apps.policies.services import make_policy

    make_policy(slug=SLUG, name=SLUG, at=now(), actor=COMMAND)
    anchor_s = min(processor_s(lambda: _events(_yaml())) for _ in range(2))
    content = _yaml().encode()

    def take(text: bytes) -> None:
        import_policy(
            file=FileImport(policy_slug=SLUG, format="yaml", content=text),
            publish=True,
            reason="x",
            at=now(),
            actor=COMMAND,
        )

    first_s = processor_s(lambda: take(content))
    assert Policy.objects.get(slug=SLUG).head_number == 2
    changed = content.replace(b"shares: 3\n", b"shares: 4\n", 500)
    changed_s = processor_s(lambda: take(changed))
    assert Policy.objects.get(slug=SLUG).head_number == 3
    return [
        BenchLine(
            "import of a 100,000-entry YAML, published / seconds allowed",
            first_s / LONGEST_S,
            1.0,
            f"{first_s:.1f} s; {len(content) / 2**20:.1f} MB; {first_s / anchor_s:.1f} × parser events alone",
        ),
        BenchLine(
            "the same with 500 shares changed / seconds allowed", changed_s / LONGEST_S, 1.0, f"{changed_s:.1f} s"
        ),
    ]


def _yaml() -> str:
    lines = [f"policy: {SLUG}", "root:", "  name: grid", "  children:"]
    for group in range(N_GROUPS):
        lines += [f"  - name: group{group}", "    kind: vo", f"    shares: {1 + group % 50}", "    children:"]
        for user in range(N_USERS):
            lines += [f"    - name: user{group}-{user}", "      kind: user", f"      shares: {1 + user % 7}"]
    return "\n".join(lines) + "\n"


def _events(text: str) -> None:
    for _ in yaml.parse(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):
        pass
