# The doors: make demo, make test, make lint.
PYTHON ?= python3
BIN := .venv/bin
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
# Where the environment forbids bytecode every process compiles everything anew, two seconds each; `make test` compiles
# once, before several processes would at the same time.
export PYTHONDONTWRITEBYTECODE :=

KILLS ?= 5000
MUTANTS ?= 0
HISTORIES ?= 2000
DAYS ?= 90

.PHONY: install demo test quick proofs coverage crash matrix fuzz histories plans days mutate million scale dask bench profile office graphs lint format clean

install: .venv/.installed

# uv installs in seconds where pip takes a minute; it comes from the same index, into the same environment.
# A machine without Python's ensurepip, or with an older pip, still works: only `venv` and `pip` are needed.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[dev,fast]'
	touch $@

demo: install
	$(BIN)/treasury demo

# bash's `time` prints the wall time and the processor time of all processes that it waited for.
test: SHELL := /bin/bash
test: install
	$(BIN)/python -m compileall -q treasury flows tasks blocks data
	# Rewritten assertions are kept: once, by two processes, and not by each worker.
	printf '%s\n' tests/engine --ignore=tests/engine | xargs -P 2 -n 1 $(BIN)/python -m pytest -q --collect-only > /dev/null
	time $(BIN)/python -m pytest -n 6 --dist loadfile

# The loop while one works: rules, plans, orders, policy, interface, house; no Prefect, no other processes, no long nights,
# SQLite alone. Which tests are slow or thorough stands in tests/conftest.py.
quick: install
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "not slow and not thorough and not prefect" -k "not postgresql"

# For nights: what `make test` tries a few of, many times, and what is marked `proof`, every engine test on PostgreSQL too.
PROOFS := PROOFS=all $(BIN)/python -m pytest -q --max-costs 0 --costs -n 6
proofs: install
	$(PROOFS) --dist worksteal tests/matrix tests/machine tests/crash tests/planning tests/reconciliation
	$(PROOFS) --dist loadfile tests/fuzz tests/engine tests/browser tests/commands tests/flows tests/packaging tests/sheets

# The whole suite, and which lines of the four packages none of its own processes ran; slower than `make test`.
coverage: install
	$(BIN)/python -m pytest -n 3 --dist loadfile --max-costs 0 --cov --cov-report=term

# One proof alone, as long as its variable says: KILLS processes killed and started again; every fault against every payment;
# 20,000 answers that nobody should give; HISTORIES of what people decide, and of approvals by key, against oracles; 5,000
# treasuries for each property of planned conversions; DAYS of rebalancing on the sandbox, each started twice.
ONE := $(BIN)/python -m pytest -q --max-costs 0
crash: install
	$(BIN)/python -m tests.crash.campaign --kills $(KILLS)
	PROOFS=all FLOW_KILLS=20 $(ONE) tests/commands/test_starts.py

matrix: install
	PROOFS=all $(ONE) -n 3 tests/matrix

fuzz: install
	FUZZ=20000 $(ONE) tests/fuzz

histories: install
	HISTORIES=$(HISTORIES) $(ONE) -n 2 tests/machine/test_decided.py tests/machine/test_approved.py tests/machine/test_keyed.py

plans: install
	PLANS=5000 $(ONE) -n 2 tests/planning/test_conversions.py tests/planning/test_rounds_of_a_day.py

days: install
	DAYS=$(DAYS) $(ONE) tests/engine/test_days.py

# What deploy/ sets up, in plain processes: PostgreSQL with pg_trgm, Prefect's server, two workers, one of them killed.
scale: install
	PROOFS=all $(ONE) -s tests/flows/test_workers.py

# The parts of a sweep, and `.map` of 200 withdrawals, on Dask and on the other runners, in an environment of its own.
dask: install
	$(PYTHON) -m venv .venv-dask
	$(BIN)/uv pip install --quiet --python .venv-dask/bin/python -c constraints.txt -e '.[dev,fast,dask]'
	PROOFS=all .venv-dask/bin/python -m pytest -q --max-costs 0 tests/flows/test_mapped.py tests/flows/test_runners.py

# Whether the tests notice a broken engine (MUTANTS=0 is all of them).
mutate: install
	$(BIN)/python -m tests.mutate.mutate --mutants $(MUTANTS)

# How a reconciliation grows: 100,000 and 1,000,000 orders from stored answers.
million: install
	$(BIN)/python -m tests.reconciliation.million

# The workbooks and sheets in LibreOffice (`soffice` must be there).
office: install
	$(BIN)/python -m pytest -q tests/reports/office.py tests/commands/sheets_in_libreoffice.py

# Rates beside the signing limit, each case and its rivals interleaved; writes bench/results.json.
bench: install
	$(BIN)/python -m bench.run

# Where the time goes, function by function; writes docs/profile.md (py-spy has to be allowed to look at a process).
profile: install
	$(BIN)/python -m bench.profile

# The graphs of docs/flows.md and README.md, as Prefect's server shows the flows.
graphs: install
	GRAPHS=write $(ONE) tests/flows/test_drawn.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-dask .demo dist build *.egg-info
