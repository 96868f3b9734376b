"""Mutations that break what the paper on grid-wide fair share claims."""

from __future__ import annotations

from collections.abc import Mapping

from tests.papers.mutations.mutation import Mutation

_AUTHORITY = "apps/policies/access/authority.py"
_DELTAS = "apps/usage/bucket_deltas.py"
_CODECS = "apps/engine/codecs.py"
_COLUMNS = "apps/policies/tree/columns.py"
_DECAY = "apps/engine/decay.py"
_GRIDWIDE = "apps/engine/algorithms/gridwide.py"
_INPUTS = "apps/engine/algorithms/inputs.py"
_METERING = "apps/priorities/metering.py"
_FACTORS = "apps/priorities/usage_factors.py"
_NEW_USERS = "apps/priorities/serving/new_users.py"
_PEER_SUMS = "apps/usage/records/peer_sums.py"
_PERCENT = "apps/policies/operations/percent.py"
_REFRESH = "apps/federation/mounts/mount_refresh.py"
_RUN = "apps/contrib/lab/simulation/run.py"
_SCENARIO = "apps/contrib/lab/simulation/scenario.py"
_SITES = "apps/contrib/lab/simulation/sites.py"
_STALENESS = "apps/federation/staleness.py"
_SWEEP = "apps/engine/sweep.py"
_WORKLOAD = "apps/contrib/lab/simulation/workload.py"

_IN_SCOPE = 'return (scope == "global" or not self.origin) and (not narrowed or self.slug in narrowed)'
_LOCAL_IS_GLOBAL = Mutation(_METERING, _IN_SCOPE, "return not narrowed or self.slug in narrowed")
_GLOBAL_IS_LOCAL = Mutation(_METERING, _IN_SCOPE, "return not self.origin and (not narrowed or self.slug in narrowed)")
_OWN_SCOPE = Mutation(
    _INPUTS,
    "compared_by = scope[np.maximum(prepared.fairshare_parent, 0)]",
    "compared_by = scope",
)
_BY_GROUP_OF_ROOT = Mutation(
    _SWEEP,
    "        divisor = sums[level.parents]\n        empty",
    "        divisor = np.full(len(level.parents), sums[0])\n        empty",
)
_TURNED = Mutation(_GRIDWIDE, "deviation = (target - actual) * 100.0", "deviation = (actual - target) * 100.0")
_BEHIND_ITSELF = Mutation(
    _NEW_USERS,
    "rank = 1 + count_ahead(snapshot.leaf_components, list(components), snapshot.order)",
    "rank = 2 + count_ahead(snapshot.leaf_components, list(components), snapshot.order)",
)
_EQUAL_TARGETS = Mutation(
    _SITES,
    "target=np.where(is_padding, 0.0, prepared.target[inner]),",
    "target=np.where(is_padding, 0.0, 0.5),",
)
_AS_RELATIVE = Mutation(
    _SITES,
    "return _rule(kinds.GRIDWIDE, coarse=coarse, tie=TIE_POINTS, pad=0.0)",
    "return _rule(kinds.RELATIVE, resolution=2.0**31, coarse=coarse, pad=2.0**30)",
)
_ONE_APPROACH = Mutation(
    _SITES, "global_approach=scenario.global_approach,", "global_approach=scenario.local_approach,"
)
_LATER_ENTRY = Mutation(
    "apps/series/head_mapping.py",
    "np.where(lost & (ancestor > 0), ancestor, entry)",
    "np.where(lost & (ancestor < 0), ancestor, entry)",
)
_AGE = Mutation(_DECAY, "age = np.maximum(0.0, as_of_s - (start + BUCKET_S))", "age = np.maximum(0.0, as_of_s - start)")
_UNLISTED = Mutation(
    "apps/engine/algorithms/__init__.py",
    "return {**_BUILT_IN, **algorithms_of_packages().objects}",
    "return {**_BUILT_IN}",
)
_NO_REQUESTED_TIME = Mutation(
    _PEER_SUMS, "requested_s=running.requested_s[chosen],", "requested_s=0.0 * running.requested_s[chosen],"
)

GRIDWIDE: Mapping[str, tuple[Mutation, ...]] = {
    "4.1": (_LOCAL_IS_GLOBAL,),
    "4.2": (
        Mutation(_REFRESH, "applied.furthest_points > mount.most_points + 1e-9", "applied.furthest_points > 100.0"),
        Mutation(
            "apps/federation/mounts/services.py",
            'operation = {"op": "mount", "entry": str(mount.entry_uid), "mount": None}',
            'operation = {"op": "archive", "entry": str(mount.entry_uid)}',
        ),
    ),
    "4.3": (
        Mutation(
            "apps/federation/documents/wire.py",
            "PARENT if node.shares is None else plain_number(node.shares)",
            "PARENT if node.shares is None else 1",
        ),
    ),
    "4.4": (Mutation("apps/engine/tree.py", "MAX_DEPTH = 64", "MAX_DEPTH = 63"),),
    "4.5": (
        Mutation(
            "apps/federation/mounts/application.py",
            "their_parents = np.where(mounted.parent[1:] == 0, row,",
            "their_parents = np.where(mounted.parent[1:] == 0, 0,",
        ),
    ),
    "4.6": (
        Mutation(
            "apps/federation/publishing.py",
            "nested = Mount.objects.filter(policy=policy, entry_uid__in=uids)",
            "nested = Mount.objects.filter(policy=policy, entry_uid__in=uids[1:])",
        ),
        Mutation(
            _AUTHORITY,
            "ends = {verb: self.until(verb, lineage) for",
            "ends = {verb: self.until(verb, lineage[:-1]) for",
        ),
    ),
    "4.7": (
        Mutation("apps/federation/grid/sites.py", "self.enforced < self.published", "self.enforced > self.published"),
    ),
    "4.8": (_LOCAL_IS_GLOBAL,),
    "4.9": (_TURNED,),
    "4.10": (_LOCAL_IS_GLOBAL, _OWN_SCOPE),
    "4.11": (_GLOBAL_IS_LOCAL,),
    "4.12": (Mutation("apps/policies/formats/csv_table.py", "self._weigh(at, shares)", "self._weigh(at, shares + 1)"),),
    "4.13": (_BEHIND_ITSELF,),
    "4.14": (
        Mutation(
            _SWEEP,
            "        divisor = sums[level.parents]\n        empty",
            "        divisor = 2.0 * sums[level.parents]\n        empty",
        ),
    ),
    "4.15": (
        Mutation(_PERCENT, "exact = wanted * others / (1 - wanted)", "exact = wanted * others"),
        Mutation(_PERCENT, "new = _rounded(wanted / 100 * total)", "new = _rounded(wanted / 100 * (total - own))"),
    ),
    "4.16": (
        Mutation(
            "apps/policies/operations/apply.py",
            "edit.change(node, kind=kind, is_group=is_group)",
            "edit.change(node, is_group=is_group)",
        ),
    ),
    "4.17": (Mutation(_METERING, _IN_SCOPE, 'return scope == "global" or not self.origin'),),
    "4.18": (
        Mutation(
            "apps/web/shell/lines.py",
            "if not entry.scope or not (entry.n_children or entry.hidden_children):",
            "if not entry.scope or not entry.scope_sources:",
        ),
    ),
    "4.19": (Mutation(_DELTAS, "records.mem_mb / 1024.0", "records.mem_mb"),),
    "4.20": (
        Mutation(
            _FACTORS,
            'float(factor["factor"]) for factor in factors if factor["site"] == site), 1.0)',
            '1.0 for factor in factors if factor["site"] == site), 1.0)',
        ),
    ),
    "4.21": (
        Mutation(
            _REFRESH,
            "return build_request(mount, url=mount.url, etag",
            'return build_request(mount, url=f"https://{mount.issuer}/{mount.publication}", etag',
        ),
    ),
    "4.22": (
        Mutation(
            "apps/federation/fetch_requests.py",
            "at + timedelta(seconds=wait_s(remote, is_good=is_good))",
            "at + timedelta(days=365)",
        ),
        Mutation(_REFRESH, "applied.furthest_points > mount.most_points + 1e-9", "applied.furthest_points > 1.0"),
    ),
    "4.23": (
        Mutation(
            "terminal/fairshare_callout.py",
            "return repr(factor) if weight is None",
            "return repr(1.0 - factor) if weight is None",
        ),
    ),
    "4.24": (
        Mutation(
            "apps/contrib/allocations/current.py",
            "return 0.0 if self.period.ends_on < today else self.holding.amount - used",
            "return 0.0 if self.period.ends_on < today else self.holding.amount",
        ),
    ),
    "4.25": (
        Mutation(
            "apps/contrib/jobs/algorithms/slurm_multifactor.py",
            "factors[name].value * settings.weights[name] for name in FACTORS}",
            "factors[name].value * 1000 for name in FACTORS}",
        ),
    ),
    "4.26": (Mutation(_COLUMNS, "np.where(here < 0, code[self.parent[lo:hi]], here)", "np.where(here < 0, 0, here)"),),
    "4.27": (
        Mutation(
            "apps/mapping/rules/rule.py",
            'fqan.startswith(self.fqan_pattern.rstrip("/") + "/")',
            'fqan.startswith(self.fqan_pattern.rstrip("/"))',
        ),
    ),
    "4.28": (
        Mutation(
            _DELTAS,
            "    first = start_us[chosen] // HOUR_US\n",
            "    first = end_us[chosen] // HOUR_US\n",
        ),
    ),
    "4.29": (_AGE,),
    "4.30": (_UNLISTED,),
    "4.31": (_UNLISTED,),
    "4.32": (_BEHIND_ITSELF,),
    "4.33": (_OWN_SCOPE,),
    "4.34": (Mutation(_GRIDWIDE, "(target - actual) * 100.0  # Elmroth", "(target - actual) * 10.0  # Elmroth"),),
    "4.35": (
        Mutation(
            "apps/engine/numerics/vector_ranks.py",
            "    segment = np.concatenate((class_above, np.arange(n_above)))",
            "    segment = np.zeros(n + n_above, dtype=np.int64)",
        ),
    ),
    "4.36": (Mutation(_CODECS, "GRID_BASE = 200", "GRID_BASE = 100"),),
    "4.37": (
        Mutation(
            _CODECS,
            "[*deviations, *[0.0] * (depth - len(deviations))]",
            "[*deviations, *[-100.0] * (depth - len(deviations))]",
        ),
    ),
    "4.38": (
        Mutation(
            _CODECS,
            "    factor: FloatArray = ahead / -n_ranked\n",
            "    factor: FloatArray = (ahead + 1) / -n_ranked\n",
        ),
    ),
    "4.39": (_BY_GROUP_OF_ROOT,),
    "4.40": (
        Mutation(
            "apps/engine/decay_functions.py",
            'settings["factor"] ** np.floor(age / settings["granularity_s"])',
            'settings["factor"] ** (age / settings["granularity_s"])',
        ),
    ),
    "4.41": (
        Mutation(
            "apps/contrib/lab/simulation/scenarios/converge-predictive.json",
            '{"name": "R6", "cpus": 100}',
            '{"name": "R6", "cpus": 120}',
        ),
    ),
    "4.42": (
        Mutation(
            _WORKLOAD,
            'site=sites[random["site"].integers(0, len(sites), n)],',
            "site=sites[np.arange(n) % len(sites)],",
        ),
        Mutation(
            _WORKLOAD,
            'site=sites[random["site"].integers(0, len(sites), n)],',
            'site=sites[random["site"].integers(0, (len(sites) + 1) // 2, n)],',
        ),
    ),
    "4.43": (_ONE_APPROACH, _NO_REQUESTED_TIME),
    "4.44": (
        _EQUAL_TARGETS,
        Mutation(
            _SITES, "is_shared=~is_padding & scenario.scope_is_global[entry_of[inner]],", "is_shared=~is_padding,"
        ),
    ),
    "4.45": (_EQUAL_TARGETS,),
    "4.46": (_EQUAL_TARGETS,),
    "4.47": (_EQUAL_TARGETS,),
    "4.48": (
        Mutation(
            _RUN,
            "points[entry] = float(np.sqrt(np.mean(gaps**2))) if is_defined",
            "points[entry] = float(np.sqrt(np.mean(gaps**2))) / entry**2 if is_defined and entry",
        ),
    ),
    "4.49": (_ONE_APPROACH,),
    "4.50": (_ONE_APPROACH,),
    "4.51": (_NO_REQUESTED_TIME,),
    "4.52": (Mutation(_SITES, "machines=Machines(cpus, np.full", "machines=Machines(cpus // 10, np.full"),),
    "4.53": (
        Mutation(
            _SCENARIO,
            "is_global[row] = row > 0 and is_global[policy.tree.parent[row]]",
            "is_global[row] = True",
        ),
        Mutation(_SCENARIO, 'is_global[row] = scope == "global"', "is_global[row] = True"),
    ),
    "4.54": (Mutation(_SCENARIO, 'is_global[row] = scope == "global"', "is_global[row] = False"),),
    "4.55": (_AS_RELATIVE,),
    "4.56": (_EQUAL_TARGETS,),
    "4.57": (
        Mutation(
            "apps/contrib/lab/management/commands/simulate.py",
            "times = [min(n * every_h, hours) for n in range(1, n_steps + 1)]",
            "times = [min(n * every_h, hours) for n in range(1, n_steps, 2)]",
        ),
    ),
    "4.58": (_LATER_ENTRY,),
    "4.59": (_LATER_ENTRY,),
    "4.60": (
        Mutation(
            "apps/priorities/delivered_usage.py",
            "np.stack([sweep.sum_up(tree, row)[0] for row in own])",
            "np.stack(list(own))",
        ),
    ),
    "4.61": (
        Mutation(
            _STALENESS,
            "return last_contact_at(remote) + timedelta(seconds=remote.max_age_s) <= at",
            "return last_contact_at(remote) + timedelta(days=365) <= at",
        ),
    ),
    "4.62": (
        Mutation(
            "apps/core/signing.py",
            "        except (InvalidSignature, ValueError):\n            return False",
            "        except (InvalidSignature, ValueError):\n            return True",
        ),
        Mutation(
            "apps/federation/documents/trust.py",
            "circle = (in_circles & {head.issuer, *head.issuers}) | ({own_name} & {head.issuer})",
            "circle = {own_name} & {head.issuer}",
        ),
    ),
    "4.63": (
        Mutation(
            _AUTHORITY,
            "above = tree.lineage(node)[:-1]\n        if above",
            "above = tree.lineage(node)\n        if above",
        ),
        Mutation(
            _AUTHORITY,
            "missing = [] if self._only_see else self._missing(verb, lineage)",
            "missing = []",
        ),
        Mutation(
            "apps/policies/access/delegation.py",
            "end, missing = setting.holding.limit(grant.verbs, lineage)\n        _refuse_missing(missing)",
            "end, missing = setting.holding.limit(grant.verbs, lineage)",
        ),
    ),
    "4.64": (
        Mutation(
            "apps/priorities/selectors/rows.py",
            "            actual = float(values.actual[at])\n",
            "            actual = float(values.target[at])\n",
        ),
    ),
    "4.65": (
        Mutation(
            "apps/policies/formats/gridengine.py", "builder.shares[row] = float(shares)", "builder.shares[row] = 1.0"
        ),
    ),
    "4.66": (
        Mutation(
            "apps/policies/access/delegation.py",
            "reason=grant.reason if reason is None else reason,",
            'reason="" if reason is None else reason,',
        ),
    ),
    "4.69": (
        Mutation(
            "apps/contrib/schedulers/waiting.py",
            'without = _starts_before(queue, table.priority_in(counted_in.split(",")) - fair, i)',
            'without = _starts_before(queue, table.priority_in(counted_in.split(",")), i)',
        ),
    ),
    "4.70": (
        Mutation(
            "fairshare_web/settings.py",
            '"recompute-stale": {"task": "apps.priorities.tasks.recompute_stale", "schedule": float(FAIRSHARE_TICK_S)}',
            '"recompute-stale": {"task": "apps.priorities.tasks.prune_snapshots", "schedule": float(FAIRSHARE_TICK_S)}',
        ),
        Mutation("apps/priorities/recompute/staleness.py", "return _current(policy, as_of) is None", "return False"),
    ),
    "4.71": (
        Mutation(
            "apps/web/shell/live_state.py",
            "numbers = (policy_id, head, served_at, series or",
            "numbers = (policy_id, head, series or",
        ),
    ),
    "4.72": (
        Mutation(
            "apps/explain/my_priority.py",
            "deciding=shown.index(walk.deciding) if walk.deciding in shown and not is_new else None,",
            "deciding=None,",
        ),
    ),
}
