"""fairshare-agent: gives the jobs of this host's scheduler the priorities that Fairshare has for them.

run           carries priorities into the scheduler, as the site orders it
check         says what in the scheduler's configuration is in the way
reset-values  resets what the agent set; needs neither site nor network
end-limits    ends limits of accounts at once, also beside a running agent and without the site
status        the last pass, and how many jobs have a value
install       makes it a service of this host, which carries priorities for one scheduler
setup         sends the site what Slurm's commands print, to begin with; --print: only prints it

Exit status: 0 done, 1 nothing was sent or an error was found, 2 wrong usage.
"""

import argparse
import getpass
import os
import signal
import socket
import sys
import threading
import time
from typing import List, Optional, Sequence

from agent import VERSION, former_lines, former_shares, limit_end, limit_journal
from agent.commands import Commands
from agent.install import Install, install, read_piped_token
from agent.loop import Agent, adapter_of, all_checks, describe_away, reset_values
from agent.names import shown
from agent.orders import KNOBS
from agent.records import Refused, ServerFailure, Unreadable
from agent.report import COUNTS, instant
from agent.rest import Rest, read_token
from agent.site_outputs import read_site
from agent.state import Table, lock, open_table, peek

STATE = "/var/lib/fairshare-agent"
DONE, FAILED, USAGE = 0, 1, 2


MOST_SETUP_LINE = 1_000  # characters of a part: the command to type stands at its end


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    os.umask(0o077)
    try:
        return int(options.command(options))
    except Refused as error:
        _log(str(error))
        return USAGE
    except (ServerFailure, Unreadable, OSError) as error:
        _log(str(error))
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairshare-agent", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(metavar="COMMAND")
    parser.set_defaults(
        command=lambda options: parser.error("which command? install, run, check, reset-values, status")
    )
    run = commands.add_parser("run", help="carry priorities into the scheduler")
    run.add_argument("--server", required=True, help="address of the site: https://…")
    run.add_argument("--scheduler", required=True, metavar="NAME", help="name of the scheduler at the site")
    run.add_argument("--token-file", required=True, metavar="FILE", help="a file that only this user can read")
    run.add_argument("--once", action="store_true", help="one pass")
    run.add_argument("--dry-run", action="store_true", help="compute and print, send nothing to scheduler or site")
    run.add_argument("--accept-changes", action="store_true", help="the first pass may change any number of values")
    run.add_argument("--first-values", metavar="FILE", help="for a submit script: the value of each account's next job")
    run.set_defaults(command=_run)
    check = commands.add_parser("check", help="say what in the scheduler's configuration is in the way")
    check.set_defaults(command=_check)
    reset = commands.add_parser("reset-values", help="reset what the agent set, without the site")
    reset.set_defaults(command=_reset_values)
    ends = commands.add_parser("end-limits", help="end limits of accounts at once, without the site")
    ends.add_argument("--allow-again", action="store_true", help="let the agent set limits again")
    ends.set_defaults(command=_end_limits)
    status = commands.add_parser("status", help="the last pass")
    status.set_defaults(command=_status)
    installs = commands.add_parser("install", help="make it a service of this host; the token comes on standard input")
    installs.add_argument("--server", required=True, help="address of the site: https://…")
    installs.add_argument("--scheduler", required=True, metavar="NAME", help="name of the scheduler at the site")
    installs.add_argument("--user", default="", help="whom it runs as (slurm, sgeadmin or condor)")
    installs.add_argument("--replace", action="store_true", help="also where another scheduler's agent is installed")
    installs.add_argument("--root", default="", metavar="DIR", help="write below this folder, and start nothing")
    installs.add_argument("--timeout-s", type=float, default=60.0, help="longest time of a command (60)")
    installs.set_defaults(command=_install)
    setup = commands.add_parser("setup", help="send the site what Slurm's commands print, to begin with")
    setup.add_argument("--server", help="address of the site: https://…")
    setup.add_argument("--token-file", metavar="FILE", help="with a token of the scope admin")
    setup.add_argument("--print", action="store_true", dest="prints", help="print it, and send nothing")
    setup.add_argument("--timeout-s", type=float, default=60.0, help="longest time of a scheduler's command (60)")
    setup.set_defaults(command=_setup)
    for each in (run, check, reset, ends, status):
        each.add_argument("--state", default=STATE, metavar="DIR", help=f"the agent's own table ({STATE})")
        each.add_argument("--timeout-s", type=float, default=60.0, help="longest time of a scheduler's command (60)")
    for each in (check, reset, ends):
        each.add_argument("--kind", choices=sorted(KNOBS), help="where the agent has set nothing yet")
        each.add_argument("--knob", choices=sorted({knob for knobs in KNOBS.values() for knob in knobs}))
    return parser


def _run(options: argparse.Namespace) -> int:
    if not options.scheduler:
        raise Refused("Which scheduler? Give --scheduler NAME.")
    source = Rest(options.server, options.scheduler, read_token(options.token_file))
    handle = lock(options.state)
    try:
        table = open_table(options.state)
        if table.was_broken:
            _log("The table was damaged and is put aside; values are compared with the scheduler, and set again.")
        agent = Agent(
            source,
            Commands(timeout_s=options.timeout_s),
            table,
            host=socket.gethostname(),
            log=_log,
            dry_run=options.dry_run,
            accept_changes=options.accept_changes,
            first_values=options.first_values,
        )
        if options.once or options.dry_run:
            return _say_pass(agent, is_reported=not options.dry_run)
        ends = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ends.set())
        agent.run(ends)
        return DONE
    finally:
        os.close(handle)


def _say_pass(agent: Agent, is_reported: bool) -> int:
    """A pass that the site refused to hear of has failed, whatever it did."""
    document = agent.run_pass()
    jobs = document["jobs"]
    print("{mode}: ".format(**document) + ", ".join(f"{jobs[name]} {name}" for name in COUNTS))
    is_lost = is_reported and not agent.was_reported
    return FAILED if document["frozen"] or jobs["failed"] or is_lost else DONE


def _check(options: argparse.Namespace) -> int:
    table = peek(options.state)
    kind = str(options.kind or table.facts.get("kind"))
    adapter = adapter_of(kind, Commands(timeout_s=options.timeout_s))
    findings = all_checks(adapter, _knob(options, table) or KNOBS[kind][0])
    for finding in findings:
        print(f"{finding.severity:8} {finding.code}: {finding.found}")
        if finding.severity != "ok":
            print(f"{'':9}→ {finding.remedy}")
    return FAILED if any(finding.severity == "error" for finding in findings) else DONE


def _reset_values(options: argparse.Namespace) -> int:
    handle = lock(options.state)
    try:
        table = open_table(options.state)
        kind = str(options.kind or table.facts.get("kind"))
        adapter = adapter_of(kind, Commands(timeout_s=options.timeout_s))
        sent = reset_values(adapter, table, _knob(options, table) or KNOBS[kind][0])
        print(f"Jobs reset: {len(sent.done)}, failed: {sent.n_failed}, left in the table: {len(table)}.")
        for code, (n, detail) in sent.problems.items():
            _log(f"{code} (jobs: {n}): {detail}")
        while former_shares.count(table):
            n_before = former_shares.count(table)
            restored, _ = former_shares.restore(adapter, table)
            former_shares.say(restored, print)
            if former_shares.count(table) == n_before:
                return FAILED
        limits = list(limit_journal.entries(table).values())
        lifted = limit_journal.restore_limits(adapter, limits, "reset", len(limits)) if limits else []
        limit_journal.forget_settled(table, lifted)
        limit_journal.say(lifted, print)
        _say_lines(former_lines.lines_to_restore(table.facts.get(former_lines.FACT, {})))
        return FAILED if sent.n_failed or limit_journal.entries(table) else DONE
    finally:
        os.close(handle)


def _say_lines(lines: Sequence[former_lines.FormerLine]) -> None:
    """The scheduler's configuration is its administrator's: the agent never writes it."""
    if not lines:
        return
    print("Now write these lines of the scheduler's configuration again, and let it read them:")
    for each in lines:
        print(f"  {each.line}  # {former_lines.where_seen(each)}")


def _end_limits(options: argparse.Namespace) -> int:
    if options.allow_again:
        was_ended = limit_journal.allow(options.state)
        print("The agent may set limits again." if was_ended else "Limits were not ended on this host.")
        return DONE
    limit_end.stop(options.state, os.environ.get("SUDO_USER") or getpass.getuser())
    kind = limit_end.kind_of(options.state) or options.kind or "slurm"
    n_left = limit_end.end_limits(options.state, adapter_of(kind, Commands(timeout_s=options.timeout_s)), print)
    print(f"Limits are ended on this host: {n_left} left. The agent sets none until end-limits --allow-again.")
    return FAILED if n_left else DONE


def _knob(options: argparse.Namespace, table: Table) -> Optional[str]:
    return options.knob or table.facts.get("knob")


def _status(options: argparse.Namespace) -> int:
    table = peek(options.state)
    last = table.facts.get("last_pass")
    if last is None:
        print(f"No pass yet, as far as this user can read {options.state}.")
        return FAILED
    jobs = last["jobs"]
    lines: List[str] = ["last pass {ended_at}, mode {mode}".format(**last)]
    lines.append(", ".join(f"{jobs[name]} {name}" for name in COUNTS))
    lines.append(f"jobs with a value by {table.facts.get('knob') or 'no knob'}: {len(table)}")
    if "away" in table.facts:
        lines.append(describe_away(table.facts["away"]))
    limits = limit_journal.entries(table)
    if limits:
        lines.append(f"accounts with a limit by the agent: {', '.join(sorted(limits))}")
    if limit_journal.ended(options.state):
        lines.append("limits were ended on this host: fairshare-agent end-limits --allow-again")
    if last["frozen"]:
        lines.append("nothing was sent ({code}): {detail}".format(**last["frozen"]))
    lines += ["{code} (jobs: {count}): {detail}".format(**error) for error in last["errors"]]
    print("\n".join(lines))
    return FAILED if last["frozen"] else DONE


def _install(options: argparse.Namespace) -> int:
    wanted = Install(
        options.server,
        options.scheduler,
        read_piped_token(),
        os.path.abspath(sys.argv[0]),
        options.user,
        os.path.abspath(options.root) if options.root else "",
        options.replace,
    )
    install(wanted, Commands(timeout_s=options.timeout_s), print)
    return DONE


def _setup(options: argparse.Namespace) -> int:
    if not options.prints and not (options.server and options.token_file):
        raise Refused("Where to? Give --server and --token-file, or --print.")
    outputs = read_site(Commands(timeout_s=options.timeout_s))
    if options.prints:
        sys.stdout.write(outputs)
        return DONE
    reply = Rest(options.server, "", read_token(options.token_file)).begin_setup(outputs, socket.gethostname())
    for line in reply["lines"]:
        mark = " " if line["is_carried"] else "!"
        texts = (shown(str(line[name]), MOST_SETUP_LINE) for name in ("name", "value", "meaning"))
        print("{} {}={}: {}".format(mark, *texts))
    print("Continue on the page {}/setup/.".format(options.server.rstrip("/")))
    return DONE


def _log(text: str) -> None:
    print(f"{instant(time.time())} {shown(text, 1000)}", file=sys.stderr, flush=True)
