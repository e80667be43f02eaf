# Oarlock: `make help` lists what can be done here. Nothing needs preparing: Go 1.26 and make are enough.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

ifeq ($(shell command -v go),)
  $(error go is not on the PATH: install Go 1.26 or newer, or add the bin folder of yours to PATH)
endif

# A user without a writable home gets caches inside the project.
export GOCACHE    := $(shell tools/cache-folder GOCACHE)
export GOPATH     := $(shell tools/cache-folder GOPATH)
export GOMODCACHE := $(shell GOPATH='$(GOPATH)' tools/cache-folder GOMODCACHE)
# With -trimpath a build does not depend on the folder, so one checkout finds what another compiled. With -modcacherw rm -r
# removes what was fetched into the project.
export GOFLAGS := $(shell go env GOFLAGS) -trimpath $(if $(findstring $(CURDIR)/,$(GOMODCACHE)),-modcacherw)

# The race detector needs a C compiler; the program itself is built without C. A process under it would sleep for a second
# at its end, which tests that start hundreds of them would be made of.
ifneq ($(shell command -v "$$(go env CC)"),)
  RACE := CGO_ENABLED=1 GORACE='atexit_sleep_ms=0 $(GORACE)'
  RACE_FLAG := -race
endif

# The program is built without C; so are tests and what linters read, and all is compiled once.
export CGO_ENABLED := 0

# What `oarlock version` says, where git lets us look: GOFLAGS often has -buildvcs=false, so Go does not record it.
STAMP = $(shell tools/version-stamp github.com/oarlock-dev/oarlock/cmd/oarlock/internal/cli)

# What to test: make test PKG=./internal/pglocal RUN=Stale
PKG ?= ./...
RUN ?=
MODULE := github.com/oarlock-dev/oarlock
GO_LIST = GOCACHE='$(GOCACHE)' GOPATH='$(GOPATH)' GOMODCACHE='$(GOMODCACHE)' go list # make 4.3 exports nothing to $(shell)
PACKAGES = $(eval PACKAGES := $$(shell $(GO_LIST) $(PKG)))$(PACKAGES)# asked once, when a target wants it

# Where goroutines meet: these are tested under the race detector.
RACED := $(addprefix $(MODULE)/,worker worker/% internal/listen internal/pglink integration/kit/netfault integration/world)

# Tests that kill processes and wait for takeovers come last, with the machine for themselves: under the load of compilers
# and a dozen other servers they would be about the machine.
ALONE := $(MODULE)/integration

# Those that take longest begin first, so that none is left to end alone. queue takes a core for two minutes: beside it go those
# that mostly wait. Two that need both cores would each take as long as if the other had gone first.
LONG := $(addprefix $(MODULE)/,worker/exec worker/action/postgres worker/supervise \
	queue cmd/oarlock-bench cmd/oarlock/internal/doctor internal/pglocal integration/browser \
	integration/storetest cmd/oarlock/internal/cli migrations web)
longest_first = $(strip $(foreach long,$(LONG),$(filter $(long),$(1))) $(filter-out $(LONG),$(1)))

# All others.
PLAIN = $(filter-out $(RACED) $(ALONE),$(PACKAGES))

# Packages whose tests are about a server; `make check` leaves them out. Those of others that want one skip under -short.
SERVER_TESTS := $(addprefix $(MODULE)/,internal/pglocal integration/kit/pgtest internal/pglink migrations)

.PHONY: help
help: ## list the targets
	@echo "Oarlock. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Narrow the tests with PKG and RUN: make test PKG=./internal/pglocal RUN=Stale"

# Shows a line per package, then skips, failures whole, and a count. AGAIN=5: up to 5 tests that failed run once more.
FLAKY := .cache/flaky
GOTESTSUM = RUN='$(RUN)' tools/gotestsum --format pkgname --format-hide-empty-pkg $(if $(AGAIN),--rerun-fails=1 \
	--rerun-fails-max-failures $(AGAIN) --rerun-fails-abort-on-data-race --rerun-fails-report $(FLAKY)) \
	--raw-command tools/test-stream

.PHONY: test
test: ## run every test, with a private Postgres and, where it matters, the race detector
	@tools/ensure-postgres
	@$(if $(RACE_FLAG),,echo "no C compiler: testing without the race detector (on Debian: apt-get install gcc libc6-dev)")
	@mkdir -p $(dir $(FLAKY)) && rm -f $(FLAKY)
	@$(RACE) RACE_FLAG=$(RACE_FLAG) GO_TEST_FLAGS='-timeout 5m -count=1 -vet=off' RACED='$(call longest_first,$(filter $(RACED),$(PACKAGES)))' \
		PLAIN='$(call longest_first,$(PLAIN))' \
		ALONE='$(filter $(ALONE),$(PACKAGES))' $(GOTESTSUM); status=$$?; \
		[ ! -f $(FLAKY) ] || sed 's/^/flaky, mend it: /' $(FLAKY); exit $$status

.PHONY: check
check: ## vet, then the tests that need no database (under 30 s)
	@go vet ./...
	@GO_TEST_FLAGS='-short -timeout 2m' PLAIN='$(filter-out $(SERVER_TESTS),$(PACKAGES))' $(GOTESTSUM)

.PHONY: build
build: ## build bin/oarlock, without C
	@go build -trimpath -buildvcs=false -ldflags "$(STAMP)" -o bin/oarlock ./cmd/oarlock
	@bin/oarlock version

.PHONY: demo
demo: build ## see it work: a run, its tree and logs; then its worker is killed, and it goes on
	@tools/ensure-postgres || test "$$(id -u)" != 0 # others than root: oarlock itself downloads what is missing
	@tools/demo "$(CURDIR)/bin/oarlock"

.PHONY: lint
lint: ## formatting and linters, go vet among them, as .golangci.yml says
	@tools/golangci-lint run ./...

.PHONY: format
format: ## rewrite Go files the way lint wants them
	@tools/golangci-lint fmt ./...

# Folders of the tests that say this in their source.
tests_with = $(shell grep -rlE --include='*_test.go' --exclude-dir=.cache '$(1)' . | xargs -r -n1 dirname | sort -u)

.PHONY: golden
golden: ## rewrite golden files, then show what changed
	@go test $(call tests_with,flag.Bool."rewrite"|oarlock/integration/kit/golden") -rewrite; status=$$?; \
		git --no-pager diff --stat -- '*testdata*' docs; exit $$status

.PHONY: bench
bench: ## run the benchmarks of packages
	@tools/ensure-postgres
	@go test -run '^$$' -bench '$(or $(RUN),.)' -benchmem $(if $(filter ./...,$(PKG)),$(call tests_with,^func Benchmark),$(PKG))

# Whole systems side by side, beside a bare loop and River: docs/internals/performance.md says how to read it. A run that was
# interrupted goes on; make bench-full CASE="chain single" measures these; BENCH_OUT=DIR keeps results elsewhere.
BENCH_OUT ?= bench-results
CASE ?=

.PHONY: bench-tool
bench-tool: build
	@tools/ensure-postgres
	@go build -trimpath -buildvcs=false -o bin/oarlock-bench ./cmd/oarlock-bench

.PHONY: bench-quick
bench-quick: bench-tool ## compare ratios with the committed ones (about 3 minutes)
	@bin/oarlock-bench --program bin/oarlock --quick $(CASE)

.PHONY: bench-keep
bench-keep: bench-tool ## measure the ratios that bench-quick compares, and keep them
	@bin/oarlock-bench --program bin/oarlock --quick --keep $(CASE)

.PHONY: bench-full
bench-full: bench-tool ## measure everything into BENCH_OUT, and show it as a table (an hour)
	@bin/oarlock-bench --program bin/oarlock --out $(BENCH_OUT) $(CASE)
	@bin/oarlock-bench report $(BENCH_OUT)

FUZZTIME ?= 10s

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@for dir in $(call tests_with,^func Fuzz); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$dir/*_test.go); do \
			echo "$$dir $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$dir || exit 1; \
		done; \
	done

.PHONY: mutants
mutants: ## plant faults in the core and the system, and see each one caught (an hour or so): ONLY=PATTERN
	@cd integration/mutant && go test -count=1 -timeout 300m -v -run 'TestCore|TestSystem' -mutants $(if $(ONLY),-only '$(ONLY)')

.PHONY: simulate
simulate: ## play SEEDS (3000) histories of the real worker in simulated time; SEED=n plays one
	@go test -count=1 -timeout 3h -v ./integration/world -run $(if $(SEED),Promises -seed $(SEED),'Promises|SameSeed' -seeds $(or $(SEEDS),3000))

# Fault runs: make chaos SEEDS=50, make chaos SEED=17, make chaos SEEDS=200 FROM=1000 LANES=3
FROM ?= 1
LANES ?= 2
CHAOS = go test -count=1 -v -run '^TestChaos$$' ./integration -chaos.lanes $(LANES)

.PHONY: chaos
chaos: ## break everything while runs go on, then judge what came of it: SEEDS=10, or SEED=n again
	@tools/ensure-postgres
	@$(CHAOS) -timeout 12h $(if $(SEED),-chaos.seed $(SEED),-chaos.seeds $(or $(SEEDS),10) -chaos.from $(FROM))

.PHONY: chaos-long
chaos-long: ## the same for a night: a thousand seeds
	@$(MAKE) chaos SEEDS=1000 FROM=$$(date +%j000000)

.PHONY: takeover
takeover: ## measure how long it takes until others go on, by what was lost (a quarter of an hour)
	@tools/ensure-postgres
	@go test -count=1 -v -timeout 2h -run '^TestTakeover' ./integration -takeover.trials 20 | grep -E 'measured|FAIL|^ok'

# What pages cost where a database is large, and many look on: make weight RUNS=20000 TASKS=2000 LOG=10 is a small one.
RUNS ?= 1000000
TASKS ?= 100000
LOG ?= 1024

.PHONY: weight
weight: ## fill a database with a million runs, load every page, follow them with 600 streams (a quarter of an hour)
	@tools/ensure-postgres
	@go test -count=1 -timeout 2h -v ./integration/weight -nightly -runs $(RUNS) -tasks $(TASKS) -log $(LOG)

.PHONY: nightly
nightly: ## play far more histories than test does, fill larger tables, race every package (an hour or so)
	@go test -count=1 -timeout 3h -v ./integration/coretest -histories 120000
	@go test -count=1 -timeout 3h -v ./integration/coretest/enumerate -nightly
	@go test -count=1 -timeout 3h ./integration -nightly -chaos.seeds 4
	@$(RACE) go test $(RACE_FLAG) -count=1 -timeout 3h ./queue ./integration/storetest -nightly
	@$(RACE) go test $(RACE_FLAG) -count=1 -timeout 3h ./worker/exec -nightly
	@$(RACE) go test $(RACE_FLAG) -count=1 -timeout 3h ./integration/world -seeds 1000
	@go test -count=1 -timeout 3h ./migrations -run TestClock -nightly
	@go test -count=1 -timeout 3h -v ./web -run TestPages_AreBoundedInAll -nightly
	@$(MAKE) weight
	@OARLOCK_TEST_BROWSER="$$(tools/ensure-browser)" go test -count=1 -timeout 1h ./integration/browser -nightly
	@$(RACE) go test $(RACE_FLAG) -count=1 -timeout 3h $(filter-out %/queue %/storetest,$(PLAIN))
	@$(MAKE) simulate SEEDS=50000

.PHONY: share
share: ## measure how workers share work: starts, joins, urgent runs, children (20 trials of each)
	@tools/ensure-postgres
	@go test -count=1 -v -timeout 1h -run '^TestShare' ./integration -share.trials 20 | grep -E 'measured|FAIL|^ok'
