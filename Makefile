# Every target sets up what it needs: a fresh clone and one command.

# An interpreter outside anybody's home folder, if there is one: as root, the local Lambda runs its
# processes as an ordinary user, who must be able to read it.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo docs site deletable faults fuzz clocks fleet pyspark spark quick test nightly lint types pytest layer wheel release cdk executable bench web-adapter models gate line-table dashboards anchors verified lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements.lock pyproject.toml
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(READY) ## Make .venv from the lock file

demo: $(READY) ## Replay the incident under the local Lambda: a table, a verdict, a picture
	@$(BIN)/truemem demo $(ARGS)

# Not --quiet: mkdocs counts the warnings that it prints, and without them nothing is strict.
docs: $(READY) ## Build README and docs/ as a site in build/site: a broken link fails
	@$(BIN)/mkdocs build --clean

site: $(READY) ## Commit this version's docs, as `latest`, to the branch gh-pages, beside the earlier ones
	@PATH="$(abspath $(BIN)):$$PATH" && version=$$(python -c 'import truemem; print(truemem.VERSION)') && \
		mike deploy --update-aliases "$$version" latest && mike set-default latest

# Four processes on two cores, as a test often waits for the processes that it has started; what takes long begins
# early, small files fill up the end.
PYTEST := $(BIN)/pytest --durations=15
ON_BOTH_CORES := -n 4 --no-loadscope-reorder

quick: lint types ## Before a commit, in a minute: lint, types, the tests of single parts, ten scenarios
	@$(PYTEST) -n 2 --no-loadscope-reorder --hypothesis-profile=quick -m "not nightly and not smoke" \
		$(filter-out %_contributing.py %_site.py,$(wildcard tests/docs/test_*.py)) tests/drift tests/proxy tests/unit $(ARGS)
	@$(PYTEST) -m smoke tests/drift tests/scenarios $(ARGS)

test: lint layer ## Lint, types, tests: what CI runs, in 15 minutes
	@$(MAKE) --no-print-directory -j 2 types pytest
	@$(BIN)/python -m tests.deletable --changed HEAD~1 --most 1

nightly: layer executable faults deletable pyspark ## What takes long: builds from nothing, the scenarios against the executable, faults
	@$(PYTEST) -m nightly tests
	@$(PYTEST) $(ON_BOTH_CORES) --timeout=900 --hypothesis-profile=nightly -m "hypothesis and not nightly" tests

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache --no-logo

types: $(READY)
	@$(BIN)/mypy

pytest: $(READY)
	@$(PYTEST) $(ON_BOTH_CORES) -m "not nightly" tests $(ARGS) || { \
	echo "once more, alone: what failed beside others"; \
	$(PYTEST) --last-failed --last-failed-no-failures none --maxfail 1 -m "not nightly" tests $(ARGS); }

layer: $(READY) ## Build dist/truemem-layer-{x86_64,arm64}.zip: 4 minutes once, then seconds
	@$(BIN)/python -m layer $(if $(WITHOUT),--without $(WITHOUT)) $(ARGS)
	@$(BIN)/python -m layer.node_client

wheel: layer ## Build dist/truemem-VERSION-py3-none-any.whl with the layer inside, to install on other machines
	@rm -rf build/lib dist/truemem-*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@wheel=$$(echo dist/truemem-*.whl); echo "$$wheel: install it with pipx install ./$$wheel, or pip install ./$$wheel"

release: layer ## Build dist/release/: wheel, layers, bills of materials, SHA256SUMS, notes; twice the same bits
	@$(BIN)/python -m deploy.release $(if $(TAG),--tag $(TAG))

cdk: ## Build dist/cdk/: the CDK construct for npm, and as a wheel (Node.js is needed)
	@cd infrastructure/cdk && npm ci --no-audit --no-fund && npm run build && npm run package

executable: layer ## The scenarios against the layer's executable
	@TRUEMEM_TEST_SIDECAR=$(CURDIR)/dist/$(shell uname -m | sed s/aarch64/arm64/)/extensions/truemem $(BIN)/pytest tests/scenarios

bench: layer ## Measure every figure of the docs and write it there; GO=PATH compares with AWS's sample in Go
	@failed=; for program in accuracy exact children threads sample_settings "layer $(if $(GO),--go $(GO))" \
		"speed $(if $(GO),--go $(GO))" line_bytes report heap drift explain lines lines_cost cases size clocks cost \
		"web $(if $(WEB_ADAPTER),--adapter $(WEB_ADAPTER))"; do \
		$(BIN)/python -m benchmarks $$program || failed="$$failed $$program"; \
	done; test -z "$$failed" || { echo "not as promised:$$failed"; exit 1; }

web-adapter: ## Build AWS's Lambda Web Adapter from its source, for its tests: 3 minutes, and cargo
	@cargo install --quiet --locked --root build/web-adapter --git https://github.com/aws/aws-lambda-web-adapter \
		--tag v1.1.0 lambda_web_adapter

models: $(READY) ## Make the sample's models and upload them: make models BUCKET=NAME
	@$(BIN)/python sample_function/models.py upload $(if $(BUCKET),--bucket $(BUCKET)) $(ARGS)

deletable: $(READY) ## Take out one wing of the sidecar, or command, after the other: lint, types, the rest's tests
	@$(BIN)/python -m tests.deletable $(ARGS)

faults: layer ## Break things, see what is lost, and write the results: 20 minutes
	@$(BIN)/python -m faults $(ARGS)

fuzz: $(READY) ## Fuzz parsers, listener, API client and processes for as long as you let it
	@$(BIN)/pytest tests/fuzz tests/truth --hypothesis-profile=long --timeout=0 $(ARGS)

CLOCKED := $(addprefix tests/report/test_,cloudwatch.py doctor.py metrics.py report.py) tests/runs/test_deployed.py \
	tests/managed tests/unit/test_telemetry.py
MOMENTS := minute hour midnight month year leap-day after-leap-day leap-second kiritimati st-johns summer-time-ends
clocks: $(READY) ## Run the tests that read the clock at a minute's turn, a year's, ...: 12 minutes
	@failed=; for moment in $(MOMENTS); do for before in 1 2; do \
		$(BIN)/python -m pytest -q -p tests.clocks --clock $$moment --before $$before $(CLOCKED) $(ARGS) || failed="$$failed $$moment/$$before"; \
	done; done; test -z "$$failed" || { echo "failed at:$$failed"; exit 1; }

fleet: $(READY) ## Measure truemem report on ten million lines: 10 GB of disk, 4 minutes
	@$(BIN)/python -m benchmarks report --environments 10000

pyspark: $(READY) # beside requirements.lock: it would take half a minute of each run of CI
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/spark/spark.lock

spark: pyspark ## Test truemem report --engine spark (Java 17 is needed): 3 minutes
	@$(PYTEST) -m nightly tests/report/test_spark.py $(ARGS)

line-table: $(READY) ## Write the tables of the line and of the causes into docs/metrics.md and docs/patterns.md
	@$(BIN)/python -m deploy.line_tables docs

dashboards: $(READY) ## Write deploy/dashboards/ from the tables of what is sent
	@$(BIN)/python -m deploy.ready_dashboards deploy/dashboards

anchors: $(READY) ## Before a release: note the anchors of the docs, which no later version takes away
	@$(BIN)/python -m deploy.anchors

verified: $(READY) ## Write docs/verified.md from what `python -m research.probe` printed: docs/verified/*.json
	@$(BIN)/python -m research.probe.page docs

gate: layer ## Fail if start, memory, size, CPU, lines or report are a fifth worse than in benchmarks/results/*.json
	@$(BIN)/python -m benchmarks gate $(ARGS)

lock: ## Resolve the dependencies again, into requirements.lock
	@$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip install --quiet uv
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --no-header \
		--no-emit-index-url --no-emit-package pyspark --no-emit-package py4j --output-file requirements.lock pyproject.toml $(ARGS)
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --output-file layer/toolchain.lock layer/toolchain.in $(ARGS)
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --output-file deploy/sam.lock deploy/sam.in $(ARGS)
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --output-file deploy/spark/spark.lock deploy/spark/spark.in $(ARGS)
	@rm -rf $(VENV)/lock

clean: ## Remove what the other targets made
	rm -rf $(VENV) build dist demo-output *.egg-info .mypy_cache .ruff_cache .hypothesis
	rm -rf $(addprefix infrastructure/cdk/,node_modules lib .jsii .npmignore tsconfig.json)
