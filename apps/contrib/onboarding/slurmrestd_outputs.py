"""What a slurmrestd answers about its site, in the text that Slurm's commands print: tree, configuration, shares.

So a site is read by one road, whatever it is read from: the readers of `sacctmgr dump`, `scontrol show config`,
`scontrol show partition`, `sacctmgr show qos` and `sshare`. Only slurmrestd of Slurm 26.05 shows the configuration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apps.core.errors import Unavailable
from apps.usage.parsers.slurm_values import number_of
from apps.usage.sources.slurmrestd import SLURM, SLURMDB, NoSuchPath, Slurmrestd

Json = Mapping[str, Any]

_ROOT = "root"
_FROM_PARENT = 2147483647  # of shares: SLURMDB_FS_USE_PARENT
_INFINITE_FROM = 1e18  # a level of sshare: Slurm 26.05 answers 2**64 for infinite
_SSHARE = (
    *("Account", "User", "Partition", "RawShares", "NormShares", "RawUsage", "NormUsage", "EffectvUsage"),
    *("FairShare", "LevelFS"),
)
# What decides about fair share; others of a hundred keys may hold anything.
_CONFIG = ("ClusterName", "FairShareDampeningFactor", "AccountingStorageTRES", "AccountingStorageEnforce")


class RestOutputs(NamedTuple):
    """Outputs about a site as one text; has_config: whether the daemon shows its configuration."""

    text: str
    has_config: bool


def read_site_by_rest(daemon: Slurmrestd) -> RestOutputs:
    """Ask for everything that a first policy is made from.

    Raises:
        Unavailable: the daemon doesn't answer, or half; it knows several clusters; or a name can't be written.
        Invalid: the token is missing, expired or rejected.
    """
    parsers = daemon.find_parsers((SLURM, SLURMDB)).by_family
    controller, database = f"/{SLURM}/{parsers[SLURM]}", f"/{SLURMDB}/{parsers[SLURMDB]}"
    associations = daemon.get_document(f"{database}/associations")
    try:
        config = config_of(daemon.get_document(f"{controller}/conf"))
    except NoSuchPath:
        config = ""
    try:
        shares = daemon.get_document(f"{controller}/shares")
    except NoSuchPath:  # before Slurm 23.11
        shares = {}
    cluster = _cluster(associations)
    parts = [
        dump_of(associations, cluster),
        config,
        sshare_of(shares, cluster),
        partitions_of(daemon.get_document(f"{controller}/partitions")) if config else "",
        qos_of(daemon.get_document(f"{database}/qos")),
    ]
    return RestOutputs("".join(parts), bool(config))


def dump_of(document: Json, cluster: str) -> str:
    """Associations as `sacctmgr dump` prints them, without limits: users before accounts, each in order of names."""
    below: defaultdict[str, list[Json]] = defaultdict(list)
    for each in _listed(document, "associations"):
        if each.get("cluster") != cluster or "DELETED" in (each.get("flags") or ()):
            continue
        user, account = str(each.get("user") or ""), str(each.get("account") or "")
        if user or account != _ROOT:
            below[account if user else str(each.get("parent_account") or _ROOT)].append(each)
    lines, names = [f"Cluster - {_quoted(cluster)}:Fairshare=1"], [_ROOT]
    written: set[str] = set()
    while names:
        parent = names.pop()
        if parent in written or not below[parent]:
            continue
        written.add(parent)
        lines.append(f"Parent - {_quoted(parent)}")
        ordered = sorted(below[parent], key=lambda each: (not each.get("user"), _name(each), _text(each, "partition")))
        lines += [_entry(each) for each in ordered]
        names += [_name(each) for each in reversed(ordered) if not each.get("user")]
    if missing := sorted(parent for parent, members in below.items() if members and parent not in written):
        message = f"The answer has members of {missing[0]!r:.80}, and no such account below root: ask again."
        raise Unavailable(message, code="cut_off")
    return "".join(f"{line}\n" for line in lines)


def _entry(association: Json) -> str:
    kind = "User" if association.get("user") else "Account"
    partition = _text(association, "partition")
    shares = number_of(association.get("shares_raw"))
    options = [f"{kind} - {_quoted(_name(association))}", f"Partition={_quoted(partition)}" if partition else ""]
    options.append(f"Fairshare={1 if shares is None else int(shares)}")
    return ":".join(filter(None, options))


def config_of(document: Json) -> str:
    """`scontrol show config`, as far as fair share depends on it."""
    values, meta = document.get("slurm_conf"), document.get("slurm_conf_meta")
    if not isinstance(values, dict):
        return ""
    lines = [f"{name} = {_printed(value)}" for name, value in values.items() if _decides(name)]
    if isinstance(meta, dict):
        for name in ("BOOT_TIME", "SLURM_VERSION"):
            lines += [f"{name} = {_printed(meta[name])}"] if name in meta else []
    return "".join(f"{line}\n" for line in sorted(lines))


def _decides(name: str) -> bool:
    return name in _CONFIG or name.startswith("Priority")


def _printed(value: Any) -> str:
    """A value of JSON as scontrol prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _one_line(",".join(map(str, value))) or "(null)"
    number = number_of(value)
    if number is not None:
        return f"{number:.15g}"
    return _one_line(str(value)) if isinstance(value, str) and value else "(null)"


def partitions_of(document: Json) -> str:
    """`scontrol show partition`: names and billing weights."""
    lines = []
    for partition in _listed(document, "partitions"):
        tres = partition.get("tres")
        weights = _text(tres, "billing_weights") if isinstance(tres, dict) else ""
        name = _one_line(_text(partition, "name"))
        lines += [f"PartitionName={name}", f"   TRESBillingWeights={_one_line(weights) or '(null)'}"]
    return "".join(f"{line}\n" for line in lines)


def qos_of(document: Json) -> str:
    """What site_commands.QOS prints."""
    lines = ["Name|UsageFactor"]
    for qos in _listed(document, "QOS" if "QOS" in document else "qos"):  # the former in Slurm 22.05
        factor = number_of(qos.get("usage_factor"))
        lines.append(f"{_one_line(_text(qos, 'name'))}|{1.0 if factor is None else factor:.6f}")
    return "".join(f"{line}\n" for line in lines)


def sshare_of(document: Json, cluster: str) -> str:
    """What site_commands.SSHARE prints; "" if the daemon shows no shares."""
    if not document:
        return ""
    shares = document.get("shares")
    rows = [
        row
        for row in _listed(shares if isinstance(shares, dict) else {}, "shares")
        if row.get("cluster") in (cluster, "", None)
    ]
    if not rows:
        return ""
    lines, depth_of = ["|".join(_SSHARE)], {"": -1}
    for row in rows:
        name, parent, is_user = _text(row, "name"), _text(row, "parent"), "USER" in _types(row)
        depth = depth_of.get(parent, 0) + 1
        if not is_user:
            depth_of[name] = depth
        lines.append("|".join([" " * depth + (parent if is_user else name), name if is_user else "", *_values(row)]))
    return "".join(f"{_one_line(line)}\n" for line in lines)


def _values(row: Json) -> list[str]:
    shares = number_of(row.get("shares"))
    fairshare = row.get("fairshare") if isinstance(row.get("fairshare"), dict) else {}
    is_user = "USER" in _types(row)
    return [
        _text(row, "partition"),
        "" if shares is None else "parent" if shares == _FROM_PARENT else f"{shares:.0f}",
        _real(row.get("shares_normalized")),
        f"{number_of(row.get('usage')) or 0:.0f}",
        _real(row.get("usage_normalized")),
        _real(row.get("effective_usage")),
        _real(fairshare.get("factor")) if fairshare and is_user else "",
        _real(fairshare.get("level")) if fairshare and shares != _FROM_PARENT else "",  # JSON has 0 beside `parent`
    ]


def _types(row: Json) -> Sequence[str]:
    types = row.get("type")
    return types if isinstance(types, list) else [str(types)]


def _real(value: Any) -> str:
    """A number as sshare prints it, with all digits; `inf` for an infinite level."""
    if isinstance(value, dict) and value.get("infinite"):
        return "inf"
    number = number_of(value)
    if number is None:
        return "inf" if value == float("inf") else ""
    return "inf" if number >= _INFINITE_FROM else f"{number:.17g}"


def _cluster(document: Json) -> str:
    """The daemon's cluster: as it names itself, else the only one that has associations.

    Raises:
        Unavailable: several clusters share the database, and the daemon doesn't say which is its own.
    """
    meta = document.get("meta")
    slurm = meta.get("Slurm", meta.get("slurm")) if isinstance(meta, dict) else None
    own = _text(slurm, "cluster") if isinstance(slurm, dict) else ""
    clusters = sorted({_text(each, "cluster") for each in _listed(document, "associations")})
    if own in clusters:
        return own
    if len(clusters) == 1 and clusters[0]:
        return clusters[0]
    message = f"The accounting database knows {len(clusters)} clusters, and the daemon names none as its own."
    raise Unavailable(f"{message} Send the output of sacctmgr dump instead.", code="no_cluster")


def _listed(document: Json, name: str) -> Iterable[Json]:
    """Raises:
    Unavailable: the list is missing, as in half an answer.
    """
    items = document.get(name)
    if not isinstance(items, list):
        raise Unavailable(f"The daemon's answer has no list of {name}: ask again.", code="bad_answer")
    return [item for item in items if isinstance(item, dict)]


def _name(association: Json) -> str:
    return _text(association, "user") or _text(association, "account")


def _text(item: Json, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _quoted(name: str) -> str:
    """A name between the quotes of a dump.

    Raises:
        Unavailable: it has a character that a dump can't have.
    """
    if "'" in name or "#" in name or "\\" in name or not name.isprintable():
        raise Unavailable(f"The name {name!r:.80} can't be written in a dump of Slurm.", code="bad_name")
    return f"'{name}'"


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)
