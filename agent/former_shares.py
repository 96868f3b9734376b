"""The shares that associations had before the agent first set them: kept in its table, and restored by a reset.

They are on disk before the first command, so that a killed agent can restore whatever it set. A share that was
changed in the scheduler since is left alone.
"""

from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

from agent import turns
from agent.names import shown
from agent.records import Unreadable
from agent.shares import Outcome, SetsShares, ShareLine, ShareOrder, Shares, apply_order
from agent.state import Table

FORMER, UNREPORTED = "former_shares", "restored_shares"  # facts of the table
MOST_RESTORED = 5_000  # a pass
_OURS = 2  # values that a killed agent may have left: that of the last order and that of the one before
_NOT_RESTORED = "shares_not_restored"
_Where = Tuple[str, str, str]  # cluster, group, user


class _Kept(NamedTuple):
    former: str
    ours: List[str]


class Restored(NamedTuple):
    """code: done; already (it has its former shares); changed_meanwhile or missing (left alone); or a Problem's."""

    group: str
    user: str
    before: str
    after: str
    code: str
    detail: str


SETTLED = ("done", "already", "changed_meanwhile", "missing")


def keep(table: Table, cluster: str, lines: Sequence[ShareLine]) -> None:
    """Store what these lines will replace; of a share that is put back, what it had before the change by hand.

    Raises: OSError, and nothing may be set.
    """
    rows = _rows(table)
    for line in lines:
        kept = rows.setdefault((cluster, line.group, line.user), _Kept(line.agreed or line.before, []))
        kept.ours[:] = [*(each for each in kept.ours if each != line.after), line.after][-_OURS:]
    _store(table, rows)


def count(table: Table) -> int:
    return len(_rows(table))


def unreported(table: Table) -> List[Restored]:
    """What was restored and left alone since the last report that the site has."""
    return [Restored(*row) for row in table.facts.get(UNREPORTED, [])]


def reported(table: Table) -> None:
    table.facts.pop(UNREPORTED, None)


def restore(adapter: SetsShares, table: Table) -> Tuple[List[Restored], Shares]:
    """Set former shares again; returns the outcomes and the listing afterwards.

    What is settled is forgotten, the rest stays for the next attempt. Raises: Unreadable, OSError.
    """
    there = adapter.read_shares()
    if there is None:
        raise Unreadable("The scheduler has no shares of its own.")
    rows, now = _rows(table), there.by_key()
    restored: List[Restored] = []
    lines: List[ShareLine] = []
    turn = turns.sort(table, _NOT_RESTORED, rows.items(), lambda each: "/".join(each[0]))
    for (cluster, group, user), kept in turn[:MOST_RESTORED]:
        current = now.get((group, user), "")
        if cluster != there.cluster:
            restored.append(
                Restored(group, user, "", kept.former, "refused", f"It is of the cluster {shown(cluster)}.")
            )
        elif current in kept.ours and current != kept.former:
            lines.append(ShareLine(len(lines), group, user, current, kept.former))
        else:
            code = "missing" if not current else "already" if current == kept.former else "changed_meanwhile"
            detail = f"It has {shown(current)}, and had {kept.former}." if code == "changed_meanwhile" else ""
            restored.append(Restored(group, user, current, kept.former, code, detail))
    outcomes, there = apply_order(adapter, ShareOrder(0, there.cluster, tuple(lines)), there, most=MOST_RESTORED)
    restored += [_restored(lines[each.line], each) for each in outcomes]
    settled = [each for each in restored if each.code in SETTLED]
    ended = {(there.cluster, each.group, each.user) for each in settled}
    tried = {where: "/".join(where) for where, _ in turn[:MOST_RESTORED]}
    failed = [key for where, key in tried.items() if where not in ended]
    turns.note(table, _NOT_RESTORED, failed, [key for where, key in tried.items() if where in ended])
    for each in settled:
        rows.pop((there.cluster, each.group, each.user), None)
    table.facts[UNREPORTED] = [list(each) for each in [*unreported(table), *settled]]
    _store(table, rows)
    return restored, there


def say(restored: Sequence[Restored], log: Callable[[str], object]) -> None:
    for each in restored:
        who = f"{each.group} {each.user}".rstrip()
        log(f"Shares of {who}: {each.code}, {each.before} to {each.after}. {each.detail}".rstrip())


def _restored(line: ShareLine, outcome: Outcome) -> Restored:
    return Restored(line.group, line.user, line.before, line.after, outcome.code, outcome.detail)


def _rows(table: Table) -> Dict[_Where, _Kept]:
    return {
        (str(cluster), str(group), str(user)): _Kept(str(former), [str(each) for each in ours])
        for cluster, group, user, former, ours in table.facts.get(FORMER, [])
    }


def _store(table: Table, rows: Dict[_Where, _Kept]) -> None:
    table.facts[FORMER] = [[*where, kept.former, kept.ours] for where, kept in sorted(rows.items())]
    if not rows:
        del table.facts[FORMER]
    table.save()
