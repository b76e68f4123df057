# Two commands are enough: `make run` shows Semel, `make test` proves it. What they need and do not find they
# install (tools/need), and say so. All targets: `make help`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Every build uses the versions of Cargo.lock, or fails: a suite that resolves its own versions proves another program.
CARGO_FLAGS := --locked
NEXTEST := cargo nextest run $(CARGO_FLAGS)

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  make %-11s %s\n", $$1, $$2 }'

# --- Use it

.PHONY: run
run: ## Build Semel and start a server to try things on, with a key and curl lines to copy
	@tools/need cc curl
	cargo run $(CARGO_FLAGS) --profile quick -p semel -- dev

.PHONY: tour
tour: ## Build Semel and walk through its promises on a real store in a temporary directory
	@tools/need cc
	cargo run $(CARGO_FLAGS) --profile quick -p semel -- tour

# Not optimised: it waits for leases most of the time, and shares its build with the tests.
.PHONY: demo
demo: ## Kill workers in the middle of a charge: how cards are charged twice, and how they are not
	@tools/need cc
	cargo run $(CARGO_FLAGS) -p double-charge

.PHONY: bench
bench: ## Measure the store against the raw disk, the server without a store and the ledger without itself; JSON and SVG in out/bench
	@tools/need cc postgres redis-server
	cargo run $(CARGO_FLAGS) --release -p semel -- bench store --out out/bench
	cargo run $(CARGO_FLAGS) --release -p semel -- bench http --out out/bench
	cargo run $(CARGO_FLAGS) --release -p semel -- bench ledger --out out/bench

# --- Prove it

# Every step builds with tools/linted, so a warning of the compiler or of clippy fails the step that finds it. Tests wait for
# disks, clocks and databases as much as they work: half as many again as there are cores run at a time.
.PHONY: test
test: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/tools/linted
test: export NEXTEST_TEST_THREADS ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))
test: ## Everything CI checks, step by step, with a summary
	@MAKE="$(MAKE)" tools/steps need fmt tests nodes versions doctests shuttle api deny

.PHONY: need
need: ## Install what the suite needs and this machine lacks
	@tools/need cc strace faketime mkfs.ext4 losetup mount postgres pgbouncer mariadbd redis-server rabbitmq-server python3-psycopg2 ip nft promtool curl node openssl pgrep tmux cargo-fmt cargo-clippy cargo-nextest cargo-deny

.PHONY: fmt
fmt: ## Formatting is rustfmt's
	cargo fmt --all --check

# Every feature is on in the first run, because some test asks for it, but for one: shuttle's locks.
.PHONY: clippy
clippy: ## Only the lints, which `make test` applies while it builds
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	cargo clippy $(CARGO_FLAGS) -p semel-store --all-targets --all-features -- -D warnings

# A plain `cargo nextest run` compares 256 histories per layout with the model; here it is five hundred.
.PHONY: tests
tests: export SEMEL_MODEL_CASES ?= 500
tests: ## Unit, conformance, model, crash and fault tests, but for those of many nodes
	$(NEXTEST) --workspace -E 'not binary_id(semel-proof::nodes)'

# By themselves: three servers, workers and a database or several are as much as two cores have, and their clocks go on.
.PHONY: nodes
nodes: ## The faults of many nodes on one PostgreSQL (minutes)
	$(NEXTEST) --workspace -E 'binary_id(semel-proof::nodes)'

# Debian has one version of PostgreSQL; the tests before this ran on it. Replicas and backups are made with programs that come
# with Debian's and refuse servers newer than themselves.
.PHONY: versions
versions: export POSTGRES_VERSIONS ?= 13 18
versions: ## The PostgreSQL store on the oldest and on the newest version that Semel supports
	@for version in $$POSTGRES_VERSIONS; do \
		echo "-- PostgreSQL $$version"; \
		bin=$$(tools/postgres $$version); \
		SEMEL_POSTGRES_BIN=$$bin $(NEXTEST) -p semel-store-postgres \
			-E 'not test(/^(replicas|restores)::/)'; \
	done

.PHONY: doctests
doctests: ## The examples in the documentation
	cargo test $(CARGO_FLAGS) --workspace --doc

# A run of its own: the feature swaps the locks of group commit, and no other test may run on shuttle's.
.PHONY: shuttle
shuttle: ## The interleavings of group commit, explored
	$(NEXTEST) -p semel-store --features shuttle --test shuttle

.PHONY: api
api: ## The server keeps to its own description: schemathesis finds no 5xx and no answer that differs from it
	tools/api-check

# Advisories are not among the checks: their database is fetched by git from outside, which CI machines cannot reach,
# and a new advisory would fail a commit that changed nothing. `make advisories` asks for them.
.PHONY: deny
deny: ## Licences, sources and bans of every dependency
	cargo deny --locked check bans licenses sources

.PHONY: advisories
advisories: ## Known vulnerabilities among the dependencies (needs access to github.com)
	@tools/need cargo-deny
	cargo deny --locked check advisories

# Not part of `make test`: mdBook takes minutes to build. What can go wrong in a page without it (its commands, links, place
# in the book) is tested in crates/semel/tests/it/pages.
.PHONY: book
book: ## Build the documentation as a site, in out/book
	@tools/need cc mdbook
	PATH="$(CURDIR)/target/tools/bin:$$PATH" mdbook build

# The tests below are those of `make test`; they read how long to go on from the environment.
.PHONY: soak
soak: export SEMEL_SOAK := 1
soak: export SEMEL_KILL_ROUNDS ?= 300
soak: export SEMEL_NODE_KILLS ?= 200
soak: export SEMEL_POWER_ROUNDS ?= 50
soak: export SEMEL_SOAK_JOBS ?= 20000000
soak: export SEMEL_MODEL_CASES ?= 10000
soak: export SEMEL_SIM_SEEDS ?= 5000
soak: export POSTGRES_VERSIONS ?= 13 14 16 17 18
soak: need ## The long forms: 300 kills, 200 of nodes, 50 power cuts, 20 million jobs verified, 5,000 simulated seeds (hours)
	cargo build $(CARGO_FLAGS) --release -p semel
	$(NEXTEST) --release --profile soak -p semel-proof
	$(NEXTEST) --release --profile soak -p semel-store-embedded -E 'test(model)'
	$(NEXTEST) --release --profile soak -p semel-server --test simulation
	$(MAKE) versions
