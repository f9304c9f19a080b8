# `make demo` and `make test` do all the set-up there is (see README.md), and are quick when nothing changed.
# Everything is built with one profile, release. Only test programs leave out link-time optimisation, which would be done
# anew for each of some thirty: that took a quarter of an hour on two cores.
PYTHON ?= python3

export VIRTUAL_ENV := $(CURDIR)/.venv
export PATH := $(VIRTUAL_ENV)/bin:$(PATH)

# The pyo3 crate is left out: an extension cannot be linked into a test of its own, pytest tests it.
CARGO_TEST := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked --workspace --exclude monedula-python
DEVELOP := maturin develop --release --locked

.PHONY: demo demo-kafka test simulate simulate-delivery interop behaviour spark-versions extension lint wheel build-wheel sdist bench clean

demo: extension  ## the embedded broker, a topic, and monedula reading it
	python -m benches.demo

demo-kafka: extension  ## the same on a real Kafka; the first time, Maven fetches its jars
	python -m benches.demo --kafka

# Tests mostly wait: for sessions to time out, for brokers to come back. A file stays in one process, with its clusters.
test: extension  ## all tests, Rust's and Python's
	$(CARGO_TEST)
	python -m tests

SIMULATION := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked -p monedula-engine --test simulation --
simulate:  ## members of a group under seeded faults: SEEDS=20000 many, SEED=7 one with all that happens in it
ifdef SEED
	SEED=$(SEED) $(SIMULATION) --ignored --nocapture one_seed
else
	SEEDS=$(or $(SEEDS),20000) $(SIMULATION) --nocapture every_rule
endif

DELIVERY := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked -p monedula-engine --test delivery --
simulate-delivery:  ## batches of records under seeded faults: SEEDS=20000 many, SEED=7 one with all that happens in it
ifdef SEED
	SEED=$(SEED) $(DELIVERY) --ignored --nocapture one_seed
else
	SEEDS=$(or $(SEEDS),20000) $(DELIVERY) --nocapture every_acknowledged
endif

interop: extension  ## clients that others wrote, on the embedded broker; ON=kafka or ON=both for a real Kafka
	python -m pytest tests/interop tests/groups tests/admin --on $(or $(ON),embedded)
	python -m pytest tests/consumer tests/real --on embedded

behaviour: extension  ## whole groups while things go wrong, slow scenarios too; ON=kafka or ON=both for a real three-node Kafka, PROTOCOL=consumer or both
	python -m pytest tests/groups/behaviour --on $(or $(ON),embedded) --protocol $(or $(PROTOCOL),classic) -m "slow or not slow"

spark-versions: extension  ## tests/spark/versions on every Spark that the source supports; installs each once, 0.7 GB
	python -m tests.spark.versions $(VERSIONS)

extension: .venv/.locked
	$(DEVELOP)

.venv/.locked: tests/requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@command -v cargo >/dev/null || { echo "cargo is needed: install Rust from https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv $(VIRTUAL_ENV)
	python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	@touch $@

lint: extension  ## everything that judges without running
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	ruff check
	ruff format --check
	mypy
	python -m mypy.stubtest monedula._monedula --mypy-config-file pyproject.toml
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

wheel: build-wheel  ## a manylinux_2_28 wheel in dist/, installed into a clean environment and tried on a real Kafka
	python -m tests.wheel dist

WHEEL_OPTIONS := --compatibility manylinux_2_28 --zig
build-wheel: .venv/.locked
	maturin build --release --locked --out dist $(WHEEL_OPTIONS)

sdist: .venv/.locked  ## the source distribution in dist/
	maturin sdist --out dist

bench: extension  ## the comparisons of benches/README.md and benches/spark, on small topics
	python benches/harness.py --fresh --records 300000 --rounds 1 --peers monedula,confluent_pyarrow,drain
	python -m benches.spark --fresh --records 200000 --rounds 1 --triggers 3 --arms jvm,monedula,ceiling --queries noop,stream,write
	python -m benches.broker --records 400000 --rounds 1 --members 1000
	python -m benches.producer --records 300000 --rounds 1 --peers floor,monedula_batch,monedula_send,confluent

clean:  ## what was built; the cache of jars, topics and Sparks stays
	rm -rf target dist .venv
