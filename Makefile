# `make demo` and `make test` do all the set-up there is (see README.md), and are quick when nothing changed.
# Tests and the demo run on Cargo's dev profile, with debug assertions, so that a clean clone builds once; benches and
# wheels on release.
PYTHON ?= python3

export VIRTUAL_ENV := $(CURDIR)/.venv
export PATH := $(VIRTUAL_ENV)/bin:$(PATH)

# Without bytecode each of some hundred processes compiles what it imports, and each worker of the tests rewrites all
# assertions again, for 11 s.
unexport PYTHONDONTWRITEBYTECODE

# The pyo3 crate is left out: an extension cannot be linked into a test of its own, pytest tests it.
CARGO_TEST := cargo test --locked --workspace --exclude monedula-python
DEVELOP := maturin develop --locked

# As maturin runs cargo, once it has: by other variables pyo3's build script runs anew, and pyo3 and the extension are
# compiled again, by the next `make extension` too.
LIKE_MATURIN = PYO3_BUILD_EXTENSION_MODULE=1 PYO3_CONFIG_FILE="$$(ls -t $(CURDIR)/target/maturin/pyo3-config-*-abi3.txt | head -n 1)"

.PHONY: demo demo-kafka check check-rust check-python test test-python test-all simulate simulate-delivery simulate-shares interop behaviour drill spark-versions kafka-versions miri extension extension-release docs lint wheel build-wheel notices release-check sdist bench clean

demo: extension  ## the embedded broker, a topic, and monedula reading it
	python -m benches.demo
	@echo "By the development build, which the tests use too; make demo-kafka and wheels have the release build, which is faster"

demo-kafka: extension-release  ## the same on a real Kafka; the first time, Maven fetches its jars
	python -m benches.demo --kafka

# On the embedded broker alone: a test that starts a JVM all the same fails. What starts many processes, or waits for their
# end, is left to `make test`.
QUICK := tests/arrow tests/consumer tests/groups tests/house tests/producer tests/testing \
	--ignore=tests/groups/behaviour --ignore=tests/producer/real --ignore=tests/producer/test_process.py \
	--ignore=tests/producer/test_transactions_killed.py --ignore=tests/house/test_once_more.py
check: extension  ## what a developer runs between two edits: no JVM; the goal is under three minutes where nothing is to be built
	cargo fmt --all --check
	ruff check --quiet
	ruff format --check --quiet
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-rust check-python RUST_TESTS='$(QUICK_RUST)'

# Left out: whether the simulations find what is planted, and every order of a coordinator's events. That is a minute of
# processor, and tells little of an edit.
QUICK_RUST := --skip every_planted_bug_is_found --skip groups::classic::model:: --skip groups::consumer::model::

# In CI a test that hangs ends the run while there is time to tell which one it is: Rust names the tests that take over 60 s.
IN_TIME := $(if $(CI),timeout --kill-after=60 1800)
# Side by side: both mostly wait.
check-rust: SHELL := bash -o pipefail
check-rust:
	@mkdir -p target
	$(IN_TIME) env -u MAKEFLAGS -u MFLAGS RUST_TEST_THREADS=4 $(CARGO_TEST) --quiet -- $(RUST_TESTS) 2>&1 | tee target/check-rust.txt

check-python:
	MONEDULA_TESTS_WITHOUT_JVM=1 MONEDULA_TEST_WORKERS=8 python -m tests --on embedded -m "not slow and not thorough and not jvm" -q $(QUICK)

# Tests mostly wait: for sessions to time out, for brokers to come back. So Rust's run beside Python's, and of these five
# processes at a time; what needs the same clusters stays in one of them (tests/jvms.py).
test: extension  ## every kind of test, Rust's and Python's, on a real Kafka and Spark too
	$(CARGO_TEST) --no-run
	$(IN_TIME) python -m tests.prepare
	$(MAKE) --no-print-directory --jobs=2 check-rust test-python

# With THOROUGH=1 also what `make test-all` runs, on the same clusters and Sparks: two runs would start them twice.
test-python:
	python -m tests $(if $(THOROUGH),-m "not slow")

test-all: extension  ## the rest: more variants of what `make test` runs once
	python -m tests -m "thorough and not slow"

SIMULATION := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked -p monedula-engine --test simulation --
simulate:  ## members of a group under seeded faults: SEEDS=20000 many, from FIRST=0 on, SEED=7 one with all that happens in it
ifdef SEED
	SEED=$(SEED) $(SIMULATION) --ignored --nocapture one_seed
else
	FIRST=$(or $(FIRST),0) SEEDS=$(or $(SEEDS),20000) $(SIMULATION) --nocapture every_rule
endif

DELIVERY := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked -p monedula-engine --test delivery --
simulate-delivery:  ## batches of records under seeded faults: SEEDS=20000 many, from FIRST=0 on, SEED=7 one with all that happens in it
ifdef SEED
	SEED=$(SEED) $(DELIVERY) --ignored --nocapture one_seed
else
	FIRST=$(or $(FIRST),0) SEEDS=$(or $(SEEDS),20000) $(DELIVERY) --nocapture every_acknowledged
endif

SHARES := CARGO_PROFILE_RELEASE_LTO=off cargo test --release --locked -p monedula-engine --test share_simulation --
simulate-shares:  ## members of a share group under seeded faults: SEEDS=20000 many, from FIRST=0 on, SEED=7 one with all that happens in it
ifdef SEED
	SEED=$(SEED) $(SHARES) --ignored --nocapture one_seed
else
	FIRST=$(or $(FIRST),0) SEEDS=$(or $(SEEDS),20000) $(SHARES) --nocapture every_rule
endif

interop: extension  ## clients that others wrote, on the embedded broker; ON=kafka or ON=both for a real Kafka
	python -m pytest tests/interop tests/groups tests/admin --on $(or $(ON),embedded) -m "not slow"
	python -m pytest tests/consumer tests/real --on embedded

behaviour: extension  ## whole groups while things go wrong, slow scenarios too; ON=kafka or ON=both for a real three-node Kafka, PROTOCOL=consumer, share or both
	python -m pytest tests/groups/behaviour --on $(or $(ON),embedded) --protocol $(or $(PROTOCOL),classic) -m "slow or not slow"

drill: extension  ## rounds of workers that land in tables while all goes wrong, of each format: ROUNDS=200 many, from FIRST=1 on; ON=kafka for a real three-node Kafka
	python -m tests.landing.rounds $(or $(ROUNDS),200) --first $(or $(FIRST),1) --on $(or $(ON),embedded)

spark-versions: extension  ## tests/spark/versions on every Spark that the source supports; installs each once, 0.7 GB
	python -m tests.spark.versions $(VERSIONS)

kafka-versions: extension  ## the selection of tests/kafka/versions.py on each Apache Kafka that the client is held to; VERSIONS="3.7.2 4.0.2" for some
	python -m tests.kafka.versions $(VERSIONS)

# Tree Borrows is the model. The tests leave gzip out: zlib-rs frees its state through a reference, which both models refuse.
miri: ## undefined behaviour in the one crate that has much unsafe code; needs `rustup toolchain install nightly --component miri,rust-src`
	MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-tree-borrows' BOLERO_RANDOM_ITERATIONS=5 BOLERO_RANDOM_TEST_TIME_MS=30000 \
		cargo +nightly miri test --locked -p monedula-columns

extension: .venv/.locked
	$(DEVELOP)

extension-release: .venv/.locked
	$(DEVELOP) --release

.venv/.locked: tests/requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@command -v cargo >/dev/null || { echo "cargo is needed: install Rust from https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv $(VIRTUAL_ENV)
	python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	@touch $@

lint: extension  ## everything that judges without running
	cargo fmt --all --check
	$(LIKE_MATURIN) cargo clippy --locked --workspace --all-targets -- -D warnings
	ruff check
	ruff format --check
	mypy
	python -m mypy.stubtest monedula._monedula --mypy-config-file pyproject.toml
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

# In an environment of its own: what the tests need changes without what the site needs.
SITE := target/site
SITE_VENV := target/site-venv
docs: extension $(SITE_VENV)/.locked  ## the site in target/site, from docs/ and the docstrings; a warning or a broken link is an error
	rm -rf $(SITE)
	$(SITE_VENV)/bin/python -m sphinx --quiet --fail-on-warning --keep-going -E --doctree-dir target/site-doctrees docs $(SITE)
	$(SITE_VENV)/bin/python docs/_ext/check_links.py $(SITE)

$(SITE_VENV)/.locked: docs/requirements.lock
	$(PYTHON) -m venv --clear $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/requirements.lock
	@touch $@

wheel: build-wheel  ## a manylinux_2_28 wheel in dist/, installed into a clean environment and tried on a real Kafka
	python -m tests.wheel dist

WHEEL_OPTIONS := --compatibility manylinux_2_28 --zig --compression-level 9
build-wheel: .venv/.locked
	maturin build --release --locked --out dist $(WHEEL_OPTIONS)
	python -m tests.wheel.pack dist

# Before it, `cargo install cargo-about --version 0.9.3 --features cli --locked`. The texts are those that the crates bring.
notices:  ## the licences of all crates that are linked into the extension, which are part of a wheel
	cargo fetch --locked
	cargo about generate --frozen --fail --manifest-path rust/python/Cargo.toml --config rust/about.toml --output-file THIRD-PARTY-NOTICES.txt rust/about.hbs

release-check: wheel sdist  ## all that a tag publishes, built, installed and tried, with each `pip install` of the pages
	python -m tests.wheel.release dist

sdist: .venv/.locked  ## the source distribution in dist/
	maturin sdist --out dist

# PROFILE=dev for whether they run at all, with what the tests have built; figures are those of release.
PROFILE := release
bench: export MONEDULA_PROGRAMS_PROFILE := $(PROFILE)
bench: $(if $(filter dev,$(PROFILE)),extension,extension-release)  ## the comparisons of benches/README.md and benches/spark, on small topics; PROFILE=dev without another build
	python benches/harness.py --fresh --records 300000 --rounds 1 --peers monedula,confluent_pyarrow,drain --security PLAINTEXT,SSL
	python -m benches.spark --fresh --records 200000 --rounds 1 --triggers 3 --arms jvm,monedula,ceiling --queries noop,typed,stream,write
	python -m benches.broker --records 400000 --rounds 1 --members 1000
	python -m benches.producer --records 300000 --rounds 1 --peers floor,monedula_batch,monedula_send,confluent
	python -m benches.landing --fresh --records 300000 --rounds 1 --every 1

clean:  ## what was built; the cache of jars, topics and Sparks stays
	rm -rf target dist .venv
