# `make demo` runs the main job here; `make test` passes every test. Each installs what it needs.
.PHONY: demo test check lock bench clean
.DELETE_ON_ERROR:

# Importing torch without cached bytecode takes minutes.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/ready

demo: $(READY)
	./demo.sh

test: check
	$(BIN)/pytest --numprocesses=2 --dist=loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Ten minutes of inputs for what reads others' text; tests/fuzz runs a few of them in `test`.
.PHONY: fuzz
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz 600

bench: $(READY)
	$(BIN)/python benchmarks/run.py

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml setup.sh
	./setup.sh
	touch $@

# Hashes, and no address to download from.
lock: $(READY)
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  pyproject.toml -o requirements/core.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra training --group dev pyproject.toml -o requirements/dev.txt
	echo uv | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  - -o requirements/uv.txt

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
