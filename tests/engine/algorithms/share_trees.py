"""Cases with Slurm's share trees as hypothesis draws them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

WEIGHTS = st.one_of(
    st.integers(0, 5), st.integers(0, 1_000_000), st.just("parent"), st.floats(0.001, 1000.0, allow_nan=False)
)
AMOUNTS = st.one_of(st.just(0), st.integers(0, 100), st.floats(1e-6, 1e9, allow_nan=False))


@st.composite
def share_cases(
    draw: st.DrawFn,
    name: str,
    *,
    weights: st.SearchStrategy[Any] = WEIGHTS,
    amounts: st.SearchStrategy[Any] = AMOUNTS,
    most_entries: int = 14,
) -> dict[str, Any]:
    """Accounts and users mixed at every level, reserves, empty accounts, leaves of no kind, usage anywhere."""
    root: dict[str, Any] = {"name": "root", "shares": 1, "children": []}
    groups, usage = [(root, "")], {}
    for number in range(draw(st.integers(0, most_entries))):
        parent, path = groups[draw(st.integers(0, len(groups) - 1))]
        kind = draw(st.sampled_from(("account", "account", "user", "user", "user", None, "reserve")))
        entry: dict[str, Any] = {"name": f"e{number}", "shares": draw(weights)}
        if kind:
            entry["kind"] = kind
        if kind == "account":
            entry["children"] = []
            groups.append((entry, f"{path}/e{number}"))
        parent["children"].append(entry)
        if kind != "reserve" and draw(st.integers(0, 3)):
            usage[f"{path}/e{number}"] = draw(amounts)
    return {"id": name, "algorithm": {"name": name}, "policy": root, "usage": usage}


def is_close(found: float | None, expected: float | None) -> bool:
    """Equal within 1e-9, or both nothing."""
    if found is None or expected is None:
        return found is expected
    return abs(found - expected) <= max(1e-9 * abs(expected), 1e-300)
