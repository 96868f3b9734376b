"""Random associations of a Slurm cluster, and random changes that `sacctmgr` would make to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

ROOT = "root"
_ACCOUNTS = ("bio", "chem", "geo", "hep", "lab", "math", "phys", "synth")
_USERS = ("ann", "bob", "bio", "cat", "dan")  # a user may be named like an account
Association = tuple[str, str, str]  # account, user, partition or ""


@dataclass(frozen=True)
class SlurmSite:
    """accounts: name → parent and shares. users: association → shares. Shares of None are parent's."""

    accounts: Mapping[str, tuple[str, int | None]]
    users: Mapping[Association, int | None]

    def places(self) -> set[tuple[str, bool]]:
        """The path of each association, and whether it is an account."""
        accounts = {(self.path(name), True) for name in self.accounts}
        return accounts | {(self.user_path(user), False) for user in self.users}

    def path(self, account: str) -> str:
        return "" if account == ROOT else f"{self.path(self.accounts[account][0])}/{account}"

    def user_path(self, association: Association) -> str:
        account, user, partition = association
        is_beside = not partition and self.accounts.get(user, ("", None))[0] == account
        return f"{self.path(account)}/{user}" + (f":{partition}" if partition or is_beside else "")

    def below(self, account: str) -> set[str]:
        """The account and all accounts below it."""
        children = [name for name, (parent, _shares) in self.accounts.items() if parent == account]
        return {account}.union(*(self.below(child) for child in children))

    def dump(self) -> str:
        """As `sacctmgr dump` writes it: depth first by parents, users before accounts."""
        lines = ["Cluster - 'fjord':Fairshare=1:QOS='normal'"]
        waiting = [ROOT]
        for parent in waiting:
            users = sorted((key, shares) for key, shares in self.users.items() if key[0] == parent)
            accounts = sorted((name, each) for name, each in self.accounts.items() if each[0] == parent)
            lines.append(f"Parent - '{parent}'")
            for (_account, user, partition), shares in users:
                limited = f":Partition='{partition}'" if partition else ""
                lines.append(f"User - '{user}'{limited}:DefaultAccount='{parent}':Fairshare={_text(shares)}")
            for name, (_parent, shares) in accounts:
                lines.append(f"Account - '{name}':Description='{name}':Organization='{name}':Fairshare={_text(shares)}")
                waiting.append(name)
        return "\n".join(lines) + "\n"


def _text(shares: int | None) -> str:
    return "2147483647" if shares is None else str(shares)


_shares = st.none() | st.integers(0, 99)
_associations = st.tuples(st.sampled_from(_USERS), st.sampled_from(("", "", "gpu")))


@st.composite
def sites(draw: st.DrawFn) -> SlurmSite:
    names = draw(st.lists(st.sampled_from(_ACCOUNTS), unique=True, min_size=1))
    site = SlurmSite({}, {})
    for name in names:
        site = _with_account(draw, site, name)
    return site


@st.composite
def changes(draw: st.DrawFn, site: SlurmSite) -> SlurmSite:
    """The site after up to five changes; an account that is removed goes with all that is below it."""
    for _ in range(draw(st.integers(0, 5))):
        site = _changed(draw, site)
    return site


def _changed(draw: st.DrawFn, site: SlurmSite) -> SlurmSite:
    accounts, users = dict(site.accounts), dict(site.users)
    unused = [name for name in _ACCOUNTS if name not in accounts]
    possible = ["add account"] * bool(unused) + ["add user", "move account", "remove account"] * bool(accounts)
    change = draw(st.sampled_from([*possible, *["move user", "remove user", "set shares"] * bool(users)]))
    if change == "add account":
        return _with_account(draw, site, draw(st.sampled_from(unused)))
    if change == "add user":
        users.setdefault((draw(st.sampled_from(sorted(accounts))), *draw(_associations)), draw(_shares))
    elif change == "move account":
        name = draw(st.sampled_from(sorted(accounts)))
        parent = draw(st.sampled_from(sorted({ROOT, *accounts} - site.below(name))))
        accounts[name] = (parent, accounts[name][1])
    elif change == "remove account":
        gone = site.below(draw(st.sampled_from(sorted(accounts))))
        accounts = {name: each for name, each in accounts.items() if name not in gone}
        users = {key: each for key, each in users.items() if key[0] not in gone}
    else:
        key = draw(st.sampled_from(sorted(users)))
        shares = users.pop(key)
        if change == "move user":
            users[draw(st.sampled_from(sorted(accounts))), key[1], key[2]] = shares
        elif change == "set shares":
            users[key] = draw(_shares)
    return replace(site, accounts=accounts, users=users)


def _with_account(draw: st.DrawFn, site: SlurmSite, name: str) -> SlurmSite:
    parent = draw(st.sampled_from(sorted({ROOT, *site.accounts})))
    users = {(name, *key): draw(_shares) for key in draw(st.lists(_associations, unique=True, max_size=4))}
    return SlurmSite({**site.accounts, name: (parent, draw(_shares))}, {**site.users, **users})
