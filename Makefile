# `make demo` submits a job to a local Slurm; `make test` runs every test. Both install what they need.
.PHONY: demo test quick test-conditions test-slurm24 test-frameworks check docs man audit semgrep lock bench clean
.DELETE_ON_ERROR:

# Importing torch without cached bytecode takes minutes.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/ready
TESTED := .venv/ready-for-tests

demo: $(READY)
	./demo.sh

# Jobs on a twin run `python`, which a fresh Debian has only in the virtual environment. Many tests wait for Slurm, a login
# or a timeout: six processes keep two cores busy.
test: check $(TESTED)
	PATH="$(CURDIR)/$(BIN):$$PATH" TEST_CONDITION="$${TEST_CONDITION:-by-commit}" \
	  pytest --numprocesses=6 --dist=loadfile --no-loadscope-reorder

# The rules, without Slurm, PyTorch, sshd or a browser: what plans, renders, lints and reads.
QUICK := $(foreach name,config containers launchers lint plan results sites slurm sync,tests/$(name)) \
  $(foreach name,files job_spec paths properties refusals request_text script signature text toml_structs,tests/test_$(name).py)
quick: $(TESTED)
	$(BIN)/pytest --quick --ignore=tests/lint/test_limits.py --numprocesses=2 --dist=loadfile $(QUICK)

# The tests that compute, under each condition of tests/conftest.py: other kernels, one core, a busy machine. `test` takes the
# one of the commit. Not part of `test`, because it takes hours.
CONDITIONS := native avx2 sse4 two-threads one-core busy
test-conditions: $(CONDITIONS:%=test-condition-%)
test-condition-%: $(TESTED)
	TEST_CONDITION=$* $(BIN)/pytest --numprocesses=2 --dist=loadfile \
	  tests/guide tests/training tests/test_examples.py tests/scenarios/test_training.py

# The same tests of twins, jobs and every bundled site on Slurm 24.11, which it installs once into the user's cache from
# Debian's packages. Not part of `test`, because it downloads them.
SLURM24 := tests/scenarios/test_bundled_sites.py tests/twin/test_twin_slurm.py tests/submit/test_exactly_once.py \
  tests/submit/test_job_commands.py tests/submit/test_after.py tests/status/test_states.py tests/status/test_log_files.py \
  tests/status/test_wait.py tests/submit/test_sweep.py tests/status/test_segments.py tests/submit/test_resubmit.py tests/submit/test_first.py tests/live
test-slurm24: $(TESTED)
	TWIN_SLURM=24.11 $(BIN)/pytest $(SLURM24)
	TWIN_SLURM=24.11 $(BIN)/pytest tests/scenarios/test_training.py -k "c10d or python_is_one"

# Frameworks that `make test` does not install, each in an environment of its own; some use the PyTorch of .venv.
# Not part of `test`, because it downloads them.
FRAMEWORKS := deepspeed jax mpi4py ray tensorflow transformers
WITH_PYTORCH := deepspeed transformers

test-frameworks: $(FRAMEWORKS:%=build/frameworks/%/ready) $(TESTED)
	$(BIN)/pytest --override-ini=norecursedirs=.* tests/frameworks

build/frameworks/%/ready: requirements/%.txt $(READY)
	python3 -m venv --clear --without-pip $(@D)
	$(if $(filter $*,$(WITH_PYTORCH)),$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > $$(echo $(@D)/lib/python3.*/site-packages)/project.pth; \
	  printf '#!/bin/sh\nexec "$${0%%/*}/python" -m torch.distributed.run "$$@"\n' > $(@D)/bin/torchrun; \
	  chmod +x $(@D)/bin/torchrun)
	$(BIN)/uv pip sync --quiet --require-hashes --no-build-isolation --python $(@D) $<
	touch $@

# Each training script on two ranks, stopped and continued, with the lowest versions that training/pyproject.toml allows.
# Not part of `test`, because it downloads them.
.PHONY: test-lowest
test-lowest: $(READY)
	$(BIN)/uv venv --quiet --clear --python 3.11 build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct -r training/pyproject.toml
	build/lowest/bin/python tests/training/lowest.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .

# Known vulnerabilities of the locked packages. Not part of `test`, because it needs a service on the network.
audit:
	python3 -m venv --clear build/audit
	build/audit/bin/python -m pip install --quiet --require-hashes -r requirements/audit.txt
	for file in requirements/*.txt; do build/audit/bin/pip-audit --strict --disable-pip -r $$file || exit; done

# Static analysis for security faults. Not part of `test`, because it downloads its rules.
semgrep:
	python3 -m venv --clear build/semgrep
	build/semgrep/bin/python -m pip install --quiet --require-hashes -r requirements/semgrep.txt
	PATH="$$PWD/build/semgrep/bin:$$PATH" semgrep scan --metrics=off --error --config p/python --config p/github-actions

# Warnings, such as a broken link, are errors.
docs: $(READY)
	$(BIN)/sphinx-build --fresh-env -W --keep-going --nitpicky --quiet docs build/docs

# One page for each command; any warning of groff is an error.
man: $(TESTED)
	rm -rf build/man
	$(BIN)/python docs/man_pages.py build/man
	! groff -man -Tutf8 -ww -z build/man/*.1 2>&1 | grep .

# Ten minutes of random input for the parsers of untrusted text; `test` runs a few of them (tests/fuzz).
.PHONY: fuzz
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz 600

# A thousand trials of all commands that follow a submission, under faults; `test` makes a few of them (tests/campaign).
.PHONY: campaign
campaign: $(TESTED)
	PATH="$(CURDIR)/$(BIN):$$PATH" python -m tests.campaign --trials 1000 --jobs 4 --table build/campaign.md

bench: $(READY)
	$(BIN)/python benchmarks/run.py

$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml setup.sh
	./setup.sh
	touch $@

$(TESTED): $(READY)
	./setup.sh tests
	touch $@

# Puts the JavaScript libraries of the web page into slurmgen/web/static/vendor. It needs Node.js and npm.
.PHONY: web-assets
web-assets:
	cd web_assets && npm ci --no-audit --no-fund && node build.mjs

# With hashes, and without download addresses.
lock: $(READY)
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  pyproject.toml -o requirements/core.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra training --group dev pyproject.toml -o requirements/dev.txt
	for name in uv hatchling:build pip-audit:audit semgrep; do \
	  echo $${name%:*} | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-header - -o requirements/$${name#*:}.txt || exit; \
	done
	for package in deepspeed==0.19.8 jax[cpu]==0.10.2 mpi4py==4.1.2 ray==2.60.0 transformers==5.23.0 \
	  "tensorflow-cpu==2.21.0 tf_keras==2.21.0"; do \
	  printf '%s\n' $$package | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-header --override requirements/provided.in -c requirements/dev.txt - \
	    -o requirements/$$(echo $$package | sed 's/[-=[].*//').txt || exit; \
	done

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
