# Hullmark. `make` alone prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
LOCKED := .venv/.installed
# Where built parts (kube-apiserver, etcd, kubectl) are kept, so that they outlive a checkout.
export XDG_CACHE_HOME ?= $(HOME)/.cache

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(LOCKED) ## The virtual environment with everything that is locked, and the hullmark command

$(LOCKED): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hullmark needs Python 3.11 or later; set PYTHON=python3.12, say")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $(LOCKED)

demo: $(LOCKED) ## On a simulated cluster: release documents, see drift repaired, a mistake caught, a canary fail and go back (under a minute)
	@$(BIN)/hullmark demo

serve: $(LOCKED) ## The whole cloud in one process, on loopback, with the API and the status page
	@$(BIN)/hullmark serve

serve-real: $(LOCKED) ## The same on the Pub/Sub emulator, one functions-framework process per function
	@$(BIN)/hullmark serve --bus pubsub

# Tests run with the real parts that can be had and say what they skipped; HULLMARK_REQUIRE_REAL=1 builds the parts and skips nothing.
ifeq ($(HULLMARK_REQUIRE_REAL),1)
test: kube browser promtool
endif
test: $(LOCKED) ## Every test (real parts where they are to be had)
	$(BIN)/pytest -q -n 2 --dist loadgroup

check: $(LOCKED) ## What CI checks besides: lint, format, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(LOCKED) ## Write the pages of docs/ that come from tables in the code
	@$(BIN)/python -m local.docs

kube: ## Build kube-apiserver, etcd, kubectl, kube-controller-manager, kube-scheduler from pinned modules (needs Go; some ten minutes once)
	./kube/build

browser: ## Headless Chromium, from Debian's packages where we may install them
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }

promtool: ## Prometheus' rule tester for the alerts' queries, from Debian's package, kept in the cache
	@command -v promtool >/dev/null || test -x "$(XDG_CACHE_HOME)/hullmark/promtool" || { \
	  folder=$$(mktemp -d) && cd "$$folder" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && \
	  install -D usr/bin/promtool "$(XDG_CACHE_HOME)/hullmark/promtool" && rm -r "$$folder"; }

faults: $(LOCKED) ## Every fault schedule, about 125,000 (`make test` runs a sample): two to three hours of one core; ONLY=rollout for a part
	HULLMARK_FAULTS=all $(BIN)/pytest -q $(if $(ONLY),-k "$(ONLY)") tests/faults tests/rollouts/test_decisions.py tests/rollouts/test_careless.py

forecasts: $(LOCKED) ## What `plan --impact` says against the real DaemonSet controller and scheduler: 300 random changes (ten minutes)
	HULLMARK_FORECASTS=300 $(BIN)/pytest -q -s tests/real/test_impact.py

races: $(LOCKED) ## Several processes on one folder, 3,000 rounds or four minutes; prints what they did
	$(BIN)/python -m tests.faults.races

MINUTES ?= 10
soak: $(LOCKED) ## The real transport with faults, kills and clock steps for MINUTES=10 (SEED=… to draw the same), then checked
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

years: $(LOCKED) ## 500 clusters through three years of versions, waves, freezes, pauses and failures, day by day (SEEDS=1,2,3): minutes of one core a seed
	@WAVES_CLUSTERS=500 WAVES_EVERY=1 WAVES_SEEDS=$(or $(SEEDS),1) $(BIN)/pytest -q --timeout 0 --log-cli-level=INFO tests/waves/test_years.py

mutants: $(LOCKED) ## Plant every bug of tests/mutants/planted.yaml, one after the other; each must be caught
	@$(BIN)/python -m tests.mutants $(ONLY)

BENCHES = relabel kube_clients chain events cold_start design versions migrate pods growth releases rollouts health impact
bench: $(LOCKED) kube $(BENCHES:%=bench-%) ## Every benchmark, as ratios measured side by side in one run (a quiet machine helps)

bench-%: $(LOCKED)
	$(BIN)/python -m bench.$*

# Google Cloud: PROJECT and REGION, or terraform/examples/deploy/terraform.tfvars. Needs terraform and gcloud.
archive: $(LOCKED) ## The source archive that functions are built from (dist/)
	@$(BIN)/python -m local.deploy archive

wheel: $(LOCKED) ## The wheel of the hullmark command (dist/), for pipx
	@$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . && rm -rf build && ls dist/*.whl

plan: $(LOCKED) ## What a deployment would change (PROJECT=… REGION=…)
	@$(BIN)/python -m local.deploy plan --project "$(PROJECT)" --region "$(REGION)" || [ $$? -eq 2 ]

deploy: $(LOCKED) ## Deploy to Google Cloud: the plan, a question (AUTO=1: none), a dry run through it all (PROJECT=… REGION=…)
	@AUTO="$(AUTO)" $(BIN)/python -m local.deploy deploy --project "$(PROJECT)" --region "$(REGION)"

rollback: $(LOCKED) ## Give the traffic back to what served before the last deployment (PROJECT=… REGION=…)
	@AUTO="$(AUTO)" $(BIN)/python -m local.deploy rollback --project "$(PROJECT)" --region "$(REGION)"

destroy: $(LOCKED) ## Take it down, all but the store (PROJECT=… REGION=…)
	@AUTO="$(AUTO)" $(BIN)/python -m local.deploy destroy --project "$(PROJECT)" --region "$(REGION)"

lock: ## Lock the dependencies anew, with hashes
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes -q --no-header --no-annotate requirements.in -o requirements.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes -q --no-header --no-annotate requirements-dev.in -o requirements-dev.txt

clean: ## Remove what was built here (not the store in .hullmark)
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help install demo serve serve-real test faults races mutants soak years check docs kube browser promtool bench archive wheel plan deploy rollback destroy lock clean
