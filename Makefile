# Everything a contributor needs; "make" shows it. Written for GNU make 3.81 (macOS) and any sh.
#
# Each target does its own set-up: a virtual environment in .venv, from the first of $PYTHON,
# python3.14 ... python3.11, python3 that is 3.11 or later and can make one. It is installed into
# when pyproject.toml has changed since the last time, and left alone otherwise.

VENV = .venv
COV = --cov --cov-report=term
RUN = $(VENV)/bin/python

.DEFAULT_GOAL := help
# Two pips at work in one environment would break it.
.NOTPARALLEL:
.PHONY: help demo test lint format types layers messages chaos endure clean

help:
	@echo 'make demo [ONCE=1]     the example shop under load, with a consumer killed half-way; ONCE=1 ends by itself'
	@echo 'make test [ARGS=...]   all tests on real servers, with coverage (COV= leaves that out, in half the time); ARGS go to pytest'
	@echo 'make lint              ruff: rules and format'
	@echo 'make format            let ruff format the code'
	@echo 'make types             mypy --strict'
	@echo 'make layers            who may import whom'
	@echo 'make messages          collect the texts for translation, and compile what is translated; needs gettext'
	@echo 'make chaos             the tests that take long: faults, kills, backlogs; not a part of make test'
	@echo 'make endure            ten minutes of load, kill -9 and freezes; not a part of the tests'
	@echo 'make clean             remove what make has made, .venv included'
	@echo
	@echo 'PYTHON=/path/to/python chooses the interpreter of a new .venv.'

demo: $(VENV)/.installed-demo
	$(RUN) example_project/demo.py $(if $(ONCE),--once)

test: $(VENV)/.installed-dev
	$(RUN) -m pytest $(COV) $(ARGS)

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: $(VENV)/.installed-dev
	$(RUN) -m ruff format .

types: $(VENV)/.installed-dev
	$(RUN) -m mypy

# Its cache does not see that a module has come or gone since.
layers: $(VENV)/.installed-dev
	$(VENV)/bin/lint-imports --no-logo --no-cache

# Without -P our queue.py would stand before that of the standard library.
messages: $(VENV)/.installed-dev
	cd django_redq && ../$(RUN) -P -m django makemessages --all --add-location file --no-obsolete
	cd django_redq && ../$(RUN) -P -m django compilemessages

chaos: $(VENV)/.installed-dev
	$(RUN) -m pytest -m long $(ARGS)

endure: $(VENV)/.installed-dev
	$(RUN) benchmarks/soak.py 10 --restart-redis

clean:
	rm -rf $(VENV) build dist .tox .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis example_project/var
	find django_redq tests example_project -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp a dependency group: the demo needs neither linters nor type checkers.
$(VENV)/.installed-%: pyproject.toml $(RUN)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable . --group $*
	@touch $@

# Not every Python that is found can make an environment: Debian has ensurepip in a package apart.
$(RUN):
	@missing='python3-venv (outside Debian and Ubuntu: python3.11 or later)'; \
	for python in "$$PYTHON" python3.14 python3.13 python3.12 python3.11 python3; do \
		test -n "$$python" || continue; \
		version=$$("$$python" -c 'import sys; v = sys.version_info; print("python%d.%d" % v[:2]); sys.exit(v < (3, 11))' 2>/dev/null) \
			|| { test "$$python" != "$$PYTHON" || echo "PYTHON=$$PYTHON is no Python 3.11 or later; trying others" >&2; continue; }; \
		if "$$python" -m venv --clear $(VENV) >/dev/null 2>&1 && $(RUN) -m pip --version >/dev/null 2>&1; then \
			echo "made $(VENV) with $$python ($$version)"; \
			exit 0; \
		fi; \
		rm -rf $(VENV); \
		missing="$$version-venv"; \
	done; \
	echo "Python 3.11 or later that can make a virtual environment is needed; install the package $$missing, or set PYTHON=/path/to/python" >&2; \
	exit 1
