"""The list of Slurm's commands that a set-up reads: pages, commands, the agent and the documentation take it from here.

The spellings are the same in every release from 20.11 to 26.05. Since 25.05 a dump has the UsageFactor of each QOS,
too; the table of QOS then says the same twice.
"""

from typing import List, Sequence, Tuple

CONFIG = ("scontrol", "show", "config")
SSHARE = ("sshare", "-a", "-P", "-l", "-m")
PARTITIONS = ("scontrol", "show", "partition")
QOS = ("sacctmgr", "-P", "show", "qos", "format=Name,UsageFactor")
DUMP = ("sacctmgr", "dump")
PRINTED = (CONFIG, SSHARE, PARTITIONS, QOS)  # sshare right after the configuration, which has the time
OF_SETTINGS = (CONFIG, PARTITIONS, QOS)  # what a policy takes its settings from
SECONDS = "SLURM_TIME_FORMAT=%s"  # times in seconds since 1970; local ones lack a zone


def gettext_noop(text: str) -> str:
    """Mark a text for the catalogs of translations, as Django's does: a page translates it."""
    return text


WHO = gettext_noop(
    "Run them as root, or as a user with AdminLevel=Administrator in Slurm's accounting:"
    " others are refused sacctmgr dump, SlurmUser too while accounting lacks it."
)
_REFUSED = ("not in the accounting system", "sufficient privileges")


def dump_argv(cluster: str, path: str) -> List[str]:
    """It opens its file by name, and before 26.05 reports no error if it can't."""
    return [*DUMP, cluster, "file=" + path]


def text_of(argv: Sequence[str]) -> str:
    return " ".join(argv)


def names() -> Tuple[str, ...]:
    """Programs that the list needs."""
    return tuple(dict.fromkeys(argv[0] for argv in (*PRINTED, DUMP)))


def listed(*commands: Sequence[str]) -> str:
    """Commands as a sentence lists them; all without an argument."""
    *most, last = (text_of(argv) for argv in commands or (DUMP, *PRINTED))
    return ", ".join(most) + " and " + last if most else last


def script(cluster: str = "mycluster", dump: str = "tree.cfg", out: str = "slurm.txt") -> str:
    """Lines for a shell that write one file with all outputs."""
    printed = "\n ".join(text_of(argv) for argv in PRINTED)
    return f"export {SECONDS}\n{text_of(dump_argv(cluster, dump))}\n(cat {dump}\n {printed}) > {out}\n"


def script_of_settings(out: str = "slurm.txt") -> str:
    """Lines for an import that takes settings only: without tree and shares."""
    printed = "; ".join(text_of(argv) for argv in OF_SETTINGS)
    return f"export {SECONDS}\n({printed}) > {out}\n"


def refusal_hint(message: str) -> str:
    """Who has to run the commands, if a message of `sacctmgr dump` says that this user may not; else empty."""
    return WHO if any(words in message for words in _REFUSED) else ""
