VENV := .venv
BIN  := $(VENV)/bin
BROWSER := tests/browser tests/notebooks/test_in_jupyterlab.py
PIP  := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test bench soak lint notebooks clean

help: ## Show this help
	@sed -n 's/^\([a-z]*\):.*## /\1:/p' Makefile | while IFS=: read -r name what; do \
		printf '  make %-10s %s\n' "$$name" "$$what"; done

# PORT and QUEUE_URL may be set: make run PORT=8600 QUEUE_URL=lmdb:///data/queue
run: export PORT := $(or $(PORT),8501)
run: export QUEUE_URL := $(or $(QUEUE_URL),lmdb://$(CURDIR)/var/queue)
run: export PYTHONUNBUFFERED := 1
run: $(VENV)/.run-ready ## Start dashboard, worker and demo (PORT=8501, QUEUE_URL=lmdb://…/var/queue)
	@mkdir -p var
	@echo "Dashboard: http://127.0.0.1:$$PORT   queue: $$QUEUE_URL   stop: Ctrl-C"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/honcho start || [ $$? -eq 130 ] || \
		{ echo "It ended by itself; what is above says why. Another port: make run PORT=8600" >&2; exit 1; }  # 130: Ctrl-C

test: $(VENV)/.test-ready ## Run the tests; some need a Chromium (CHROMIUM=path), some promtool (PROMTOOL=path)
	@for chromium in $$CHROMIUM chromium chromium-browser google-chrome $(VENV)/browsers/*/*/chrome-headless-shell; do \
		if command -v "$$chromium" >/dev/null; then exit 0; fi; \
	done; \
	echo "No Chromium found: downloading one into $(VENV)."; \
	PLAYWRIGHT_BROWSERS_PATH=$(VENV)/browsers $(BIN)/playwright install --only-shell chromium >/dev/null 2>&1 \
		|| echo "The download failed: browser tests will be left out."
	@mkdir -p build; $(BIN)/python -m pytest -q $(BROWSER) > build/browser.log 2>&1 & browser=$$!; \
	trap 'kill $$browser' INT TERM; \
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(addprefix --ignore=,$(BROWSER)); others=$$?; \
	echo "Waiting for the browser tests."; wait $$browser; shown=$$?; cat build/browser.log; \
	[ $$others -eq 0 ] && [ $$shown -eq 0 ]

bench: $(VENV)/.test-ready ## Measure against a bare LMDB put-and-commit
	@$(BIN)/python tests/benchmarks/bench.py

soak: $(VENV)/.test-ready ## Run the random histories and the kill tests for long
	@SOAK=1 $(BIN)/python -m pytest -q -m soak --timeout 0

lint: $(VENV)/.test-ready ## Check style, format and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

notebooks: $(VENV)/.run-ready ## Run the notebooks into build/notebooks/*.html (on QUEUE_URL if set)
	@sockets=$$(mktemp -d) && trap 'rm -rf "$$sockets"' EXIT && PLOTLY_RENDERER=notebook $(BIN)/jupyter nbconvert \
		--to html --execute --KernelManager.transport=ipc --KernelManager.ip="$$sockets/kernel" \
		--log-level WARN --output-dir build/notebooks notebooks/*.ipynb
	@echo "Open the pages in build/notebooks in a browser."

clean: ## Remove the environment, caches and built files; var/ (the demo's queue) stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.run-ready: requirements.txt pyproject.toml | $(BIN)/python
	@echo "Installing the packages; the first time takes a minute or two." >&2
	@$(PIP) -r requirements.txt -e .
	@touch $@

$(VENV)/.test-ready: $(VENV)/.run-ready
	@echo "Installing the tools for tests and lint." >&2
	@$(PIP) -c requirements.txt -e '.[dashboard,metrics,notebook,dev,bench]'
	@touch $@

$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		"$$python" -m venv $(VENV) && exit 0; \
		echo "$$python cannot make a virtual environment (Debian and Ubuntu: apt install python3-venv)." >&2; \
		rm -rf $(VENV); exit 1; \
	done; \
	echo "Python 3.11 or newer was not found. Install it, or name it: make PYTHON=/path/to/python3" >&2; exit 1
