# sandboxd: build, run and test. Needs Go 1.26, gcc and git; make run and make
# test install the rest from the system's packages.
#
#   make run                    build sbx and run a real job confined
#   make run CMD='npm test'     the same with a command of yours
#   make test                   everything that is checked

SHELL   := /bin/sh
GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
BIN     := bin

# The job of make run: this project's own build, with no network.
CMD ?= $(GO) build -buildvcs=false ./...

quoted = $(subst ','\'',$(CMD))

# Packages are built and tested at most this many at once.
JOBS ?= 2

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# Without VCS stamping the build works in a checkout of another user.
FLAGS   := -trimpath -buildvcs=false
# The documentation generator of the flag library costs start-up time and is not used;
# nor is HTTP/2, which the daemon and its clients do not speak.
TAGS    := urfave_cli_no_docs,nethttpomithttp2
LDFLAGS := -s -w -X main.version=$(VERSION)

# A static program starts faster than one that needs the dynamic loader, and runs
# in an empty container. netgo and osusergo keep libc's resolvers out.
STATIC_TAGS    := $(TAGS),netgo,osusergo
STATIC_LDFLAGS := $(LDFLAGS) -linkmode external -extldflags "-static"

.PHONY: run build static test lint bench bench-units fuzz kills faults clients install install-units clean setup setup-test modules

run: build
	@printf 'make: running confined: %s\n' '$(quoted)' >&2
	@$(BIN)/sbx run -- sh -c '$(quoted)' || { code=$$?; echo "make: error: the command ended with status $$code" >&2; exit $$code; }
	@echo 'make: done' >&2

build: setup modules
	@mkdir -p $(BIN)
	CGO_ENABLED=1 $(GO) build $(FLAGS) -tags '$(STATIC_TAGS)' -ldflags '$(STATIC_LDFLAGS)' -o $(BIN)/ ./cmd/sbx ./cmd/sandboxd

# The same program under a name that says so, checked to need no shared library.
static: build
	@if readelf -d $(BIN)/sbx 2>/dev/null | grep -q NEEDED; then \
		echo "make: error: $(BIN)/sbx needs shared libraries" >&2; exit 1; fi
	cp $(BIN)/sbx $(BIN)/sbx-static

test: setup-test modules lint
	@echo "make: testing" >&2
	$(GO) test $(TESTFLAGS) -buildvcs=false -p $(JOBS) -timeout 35m ./...

lint:
	@echo "make: checking format, vet and line rules" >&2
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')); \
	if [ -n "$$unformatted" ]; then echo "make: error: run gofmt -w on:" $$unformatted >&2; exit 1; fi
	$(GO) vet -buildvcs=false ./...

# The budgets of docs/benchmarks.md, in one table each; up to six minutes. Peers
# that are installed take turns: bwrap, firejail, landrun.
bench: build
	SANDBOXD_TEST_SBX=$(CURDIR)/$(BIN)/sbx $(GO) test -buildvcs=false -run '^$$' -bench '^BenchmarkBudgets$$' -benchtime 1x -timeout 15m ./test
	SANDBOXD_TEST_SBX=$(CURDIR)/$(BIN)/sbx SANDBOXD_TEST_SANDBOXD=$(CURDIR)/$(BIN)/sandboxd $(GO) test -buildvcs=false -run '^$$' -bench '^Benchmark(Daemon|Steps|RecordedLaunches)$$' -benchtime 1x -timeout 20m ./test
	$(GO) test -buildvcs=false -run '^$$' -bench '^Benchmark(Launch|LaunchesAtOnce|NoisyMemory)$$' -benchtime 1x ./exec

# What single functions take.
bench-units:
	$(GO) test -buildvcs=false -p 1 -run '^$$' -bench . -skip '^Benchmark(Budgets|Daemon|Steps|Launch|LaunchesAtOnce|NoisyMemory|RecordedLaunches)$$' -benchmem ./...

# Each fuzz target for FUZZTIME, one after the other.
FUZZTIME ?= 30s
fuzz: setup
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		for target in $$(grep -h -o '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -d' ' -f2 | sort -u); do \
			echo "make: fuzzing $$dir $$target" >&2; \
			$(GO) test -buildvcs=false -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

# The daemon, and runs without it, killed KILLS times each at random moments: a make test
# has a few rounds; 200 of the daemon take about 10 minutes on two processors.
KILLS ?= 200
kills: setup-test modules
	SANDBOXD_TEST_KILLS='$(KILLS)' $(GO) test -buildvcs=false -count=1 -v -timeout 4h -run '^(TestKilledDaemon|TestKilledAtAnyMoment)$$' ./test

# Each fault of test/testdata/faults.txt planted, one after the other, to see that
# its test fails; FAULTS=22,85 for those of some rows of docs/requirements.md.
FAULTS ?= all
faults: setup-test modules
	SANDBOXD_FAULTS='$(FAULTS)' $(GO) test -buildvcs=false -count=1 -v -timeout 4h -run '^TestFaults$$' ./test

# Other agents' programs, which judge what is imported from their settings: then
# SANDBOXD_TEST_CLIENTS=$(CLIENTS) make test. Needs npm and about 1 GB.
CLIENTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sandboxd-clients
clients:
	@mkdir -p '$(CLIENTS)'
	npm install --prefix '$(CLIENTS)' --no-audit --no-fund --loglevel=error \
		@openai/codex @google/gemini-cli opencode-ai @anthropic-ai/sandbox-runtime
	@echo "make: SANDBOXD_TEST_CLIENTS='$(CLIENTS)' make test asks them" >&2

install: build
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(BIN)/sbx $(BIN)/sandboxd $(DESTDIR)$(PREFIX)/bin/

# The units of the machine's daemon and of each user's. Nothing is started:
# systemctl enable --now sandboxd.socket does.
install-units: install
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/systemd/user $(DESTDIR)$(PREFIX)/share/doc/sandboxd
	install -m 0644 docs/*.md $(DESTDIR)$(PREFIX)/share/doc/sandboxd/
	for unit in service socket; do \
		sed 's|/usr/local/|$(PREFIX)/|' cmd/sandboxd/systemd/sandboxd.$$unit > $(DESTDIR)$(PREFIX)/lib/systemd/system/sandboxd.$$unit; \
		sed 's|/usr/local/|$(PREFIX)/|' cmd/sandboxd/systemd/sandboxd-user.$$unit > $(DESTDIR)$(PREFIX)/lib/systemd/user/sandboxd-user.$$unit; \
	done

clean:
	rm -rf $(BIN)

# What building needs, and what tests need besides.
setup:
	@sh .ci/setup build

setup-test:
	@sh .ci/setup test

modules:
	@$(GO) mod download
