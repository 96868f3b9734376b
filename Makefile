# Needs Python 3.11 or newer and make. PYTHON=python3.12 chooses another interpreter.
PYTHON ?= $(shell sh .ci/python)
VENV := .venv
PY := $(VENV)/bin/python
# A changed lock file has another stamp, so it is installed once and only then.
STAMP := $(VENV)/.installed-$(firstword $(shell cksum requirements.lock))
PIP := install --quiet --disable-pip-version-check --no-input --require-hashes --requirement requirements.lock
UNFETCHED = echo "Not all packages of requirements.lock could be installed: their index has to be within reach, or" \
	"PIP_INDEX_URL has to name a mirror, or PIP_FIND_LINKS a folder with all of them beside PIP_NO_INDEX=1."; exit 1
NO_PIP = echo "Neither python3-venv nor a pip of version 22.3 or newer is here: install one of them."; exit 1
# PYTHONPATH: its hook lies beside docs/. The advertisement of another product is left out of the output.
MKDOCS = NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(PY) -m mkdocs

.PHONY: help setup debian run demo dev record-schema test test-fast test-core test-faults test-federation test-schedulers test-starts test-cluster test-fresh fuzz schedulers roots bench bench-large image release lint night docs docs-parts papers mutants pictures simulate
.DEFAULT_GOAL := help

help:
	@echo "make run     serve on http://127.0.0.1:8000 (FAIRSHARE_PORT, FAIRSHARE_VAR)"
	@echo "make demo    two sites, a VO and a project at 60 × speed, for a look; it keeps nothing (DEMO=--port=8300)"
	@echo "make dev     one process that reloads code and templates, on the database of make run"
	@echo "make test    each behaviour once; with make lint what a change has to pass"
	@echo "make night   random examples and histories, fuzzing, mutants, what takes long: a table of findings (MINUTES, SEED)"
	@echo "make test-fast  engine and services"
	@echo "make test-core  the core without any plug-in"
	@echo "make lint    style, types, layers, migrations, links of the documentation"
	@echo "make docs    the documentation as a site, in site/   make docs-parts: its parts that are generated from the code"
	@echo "make papers  the papers' claims and figures measured again, against docs/appendices/papers.md; ten minutes"
	@echo "make mutants  the code changed in one place at a time, a sample (ROOMS, SAMPLE, MINUTES, SEED): do tests notice?"
	@echo "make mutants CLAIMS='4.*'  the code of claims of the papers, until each of their tests has noticed a change"
	@echo "make simulate  random histories with failures, by seed (SEED, SEEDS, STEPS, MINUTES, TRIES)"
	@echo "make pictures  the pictures of README and documentation, from a fresh sample"
	@echo "make test-fresh  property tests on examples that nobody has drawn before (MINUTES, SEED)"
	@echo "make fuzz    readers of files, documents and listings (MINUTES, FUZZ=\"usage-pbs numbers\")"
	@echo "make test-faults  imports of a million records while everything around them dies"
	@echo "make test-federation  a grid of nine real instances, for a simulated day without faults and with them"
	@echo "make test-schedulers  real Slurm 22.05, 24.11 and 26.05 (RELEASE=24.11: one) and Grid Engine; make schedulers installs them"
	@echo "make test-starts MINUTES=120  promises of starts beside those that a real Slurm plans, for so long"
	@echo "make test-cluster  a day on three hosts, with two brokers, while each part fails"
	@echo "make bench   the measured ratios make bench-large   those that take long"
	@echo "make release  wheel, source release, list of packages and checksums, in dist/"
	@echo "make image   build the container image and try it"
	@echo "make setup   install into $(VENV)"

setup: $(STAMP)

# Debian splits ensurepip off: without it the system's own pip installs into the environment.
$(STAMP): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=python3.12 setup"; exit 1; }
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV); }; }
	@echo "Installing into $(VENV) ..."
	@if $(PY) -m pip --version >/dev/null 2>&1; then $(PY) -m pip $(PIP) || { $(UNFETCHED); }; \
		else $(PYTHON) -m pip --python $(PY) --version >/dev/null 2>&1 || { $(NO_PIP); }; \
		$(PYTHON) -m pip --python $(PY) $(PIP) || { $(UNFETCHED); }; fi
	@rm -f $(VENV)/.installed-* && touch $@

run: setup
	@exec $(PY) manage.py up $(UP)

# Four instances in a temporary folder, which is removed at the end.
demo: setup
	@exec $(PY) manage.py demo $(DEMO)

# Of what make run has set up: no workers, so that a recompute is a command of its own.
dev: setup
	@FAIRSHARE_DEBUG=1 $(PY) manage.py with_stack -- $(abspath $(PY)) manage.py runserver $${FAIRSHARE_PORT:-8000}

debian:
	@sh .ci/debian

# Three on two cores: many tests wait for other processes.
WORKERS ?= 3
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist worksteal
SEED := $(or $(SEED),$(shell date +%s))

# Each behaviour once, with the same examples each time; the slowest twenty near the end. A few failures are tried once
# more, alone (tests/gate.py). Goal: twelve minutes on two idle cores.
test: setup debian
	@sh .ci/debian schedulers
	@$(PY) -m tests.gate -n $(WORKERS) --dist worksteal --durations=20 --durations-min=1 $(TESTS)

# What searches at random or takes long, each part with its share of MINUTES, and a table of what it found.
night: setup debian schedulers
	@$(PY) -m tests.night --minutes $(or $(MINUTES),90) --seed $(SEED) --workers $(WORKERS)

# Engine and services, without a browser. Goal: three minutes.
test-fast: setup
	@$(PYTEST) -m "not browser and not faults" tests/engine tests/accounts tests/policies tests/runs tests/usage \
		tests/mapping tests/priorities tests/explain tests/series tests/contrib/onboarding $(TESTS)

# The core as a site runs it that leaves out all plug-ins; tests/conftest.py says which tests are about the whole product.
test-core: setup debian
	@FAIRSHARE_PLUGINS_LEFT_OUT=all $(PYTEST) $(TESTS)

# Property tests alone, on new examples in each run and in random order, so that runs that end early reach others.
test-fresh: setup
	@echo "SEED=$(SEED)"
	@$(PYTEST) --deep -m "hypothesis and not browser and not schedulers" --minutes=$${MINUTES:-10} \
		--hypothesis-profile=fresh --hypothesis-seed=$(SEED) -p randomly --randomly-seed=$(SEED) $(TESTS)

# Imports of a million records each: about a quarter of an hour on two cores.
test-faults: setup
	@FAIRSHARE_FAULT_RECORDS=$${FAIRSHARE_FAULT_RECORDS:-1000000} $(PYTEST) tests/faults/test_import_faults.py $(TESTS)

# Each reader of foreign text, by what its inputs reach in it. What it finds is added to tests/fuzz/corpus; commit that.
fuzz: setup
	@$(PY) -m tests.fuzz --minutes $${MINUTES:-20} $(FUZZ)

# After an addition to REST v1: it is promised from the next version on. What breaks a promise is refused.
record-schema: setup
	@$(PY) -m tests.web.rest.locked_schema

release: setup
	@$(PY) .ci/make_release.py

# Builds the image and runs it against a PostgreSQL and a Redis; needs root on Debian. Five minutes.
image:
	@sh docker/rehearse

# Loads nothing from elsewhere; the parts that are generated from the code are written first.
docs: docs-parts
	@$(MKDOCS) build --strict --quiet --site-dir site

docs-parts: setup
	@$(PY) -m docsite

# Random histories of a site, its peer and its workers, new ones each time. SEED=7 lives the seventh once more, TRIES=60
# shortens it, MINUTES=10 goes on for so long.
simulate: setup
	@echo "SEED=$(SEED)"
	@SEED=$(SEED) SEEDS=$${SEEDS:-1} $(PYTEST) --deep -m deep -rP tests/simulation/test_seeds.py $(TESTS)

# Fails if a number or a figure is not the committed one, which is replaced then. Goal: ten minutes on two cores.
papers: setup
	@$(PY) -m docsite.papers

# A random sample of each room, in forks of one process; it goes on where it stopped. SEED=1 tries the same ones again.
# CLAIMS='1.12,4.*' takes the code and the tests of these claims of the papers instead; CLAIMS='*' takes a quarter of an hour.
mutants: setup
	@echo "SEED=$(SEED)"
	@$(PY) -m tests.mutants --seed $(SEED) --minutes $(or $(MINUTES),60) \
		$(if $(CLAIMS),--claims '$(CLAIMS)' $(if $(SAMPLE),--sample $(SAMPLE)),--sample $(or $(SAMPLE),50) $(if $(ROOMS),--rooms $(ROOMS)))

pictures: setup
	@$(PY) -m docsite.pictures

# Nine instances as real processes, 288 rounds a day, three days; the table of shares is printed at the end.
test-federation: setup
	@$(PY) -m pytest -s -v --deep tests/ring/test_whole_day.py $(TESTS)

schedulers: roots
	@sh .ci/debian schedulers

roots:
	@sh .ci/debian roots

# Daemons in Linux namespaces of their own: needs root, changes nothing of the machine. RELEASE=24.11 runs that Slurm alone.
# Goal: twenty minutes for each of three.
test-schedulers: setup debian schedulers
	@FAIRSHARE_SLURM_RELEASE=$(RELEASE) $(PY) -m pytest -v --deep --durations=10 --durations-min=1 -m schedulers tests/real_schedulers $(TESTS)

# Promises of starts beside those that a real Slurm plans, with users drawn from a seed. Nothing else runs it.
test-starts: setup debian schedulers
	@FAIRSHARE_SLURM_RELEASE=$(or $(RELEASE),26.05) FAIRSHARE_STARTS_MINUTES=$(or $(MINUTES),120) FAIRSHARE_STARTS_SEED=$(SEED) \
		$(PY) -m pytest -s -v --deep tests/real_schedulers/test_starts_beside_slurm.py $(TESTS)

# Three hosts in Linux namespaces, with PostgreSQL and its replica, PgBouncer, Redis and RabbitMQ: needs root, and changes
# nothing of the machine. The day takes 14.4 minutes.
test-cluster: setup
	@sh .ci/debian cluster
	@$(PY) -m pytest -s -v --deep -m cluster tests/cluster $(TESTS)

bench: setup
	@$(PY) -m bench $(BENCH)

bench-large: setup
	@$(PY) -m bench --large $(BENCH)

lint: setup
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(VENV)/bin/codespell agent apps bench docs docsite fairshare_web templates terminal *.md
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo --no-cache
	@$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(PY) manage.py check --fail-level WARNING
	@$(PY) -W ignore manage.py spectacular --format openapi-json 2>/dev/null | $(VENV)/bin/openapi-spec-validator --subschema-errors all -
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/compose.yaml
	@$(MKDOCS) build --strict --quiet --site-dir site
