# Makefile - the usual commands; the build itself is CMake (CMakePresets.json).
#
# `make help` lists them. V=1 shows every command that is run.

PREFIX ?= /usr/local
DESTDIR ?=
SEEDS ?= 1000
SCALE ?= 1
KILLS ?= 1000
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
V ?=

# What `make check` builds and tests besides dev, which `make test` covers.
CHECK_PRESETS := clang asan asan-clang tsan torture release

ifeq ($(V),)
Q := @
NINJA_FLAGS := --quiet
else
Q :=
NINJA_FLAGS := -v
endif
MAKEFLAGS += --no-print-directory

# Stress tests multiply their counts by this. 1 is the full length, ten times
# that of 0.1.
TR_TEST_SCALE ?= 0.1
export TR_TEST_SCALE

# Compiles through ccache where it is installed. The cache is inside build/
# unless CCACHE_DIR names another folder. CMAKE_C_COMPILER_LAUNCHER= turns it
# off.
ifeq ($(origin CMAKE_C_COMPILER_LAUNCHER),undefined)
ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_C_COMPILER_LAUNCHER := ccache
CCACHE_DIR ?= $(CURDIR)/build/ccache
CCACHE_MAXSIZE ?= 2G
export CCACHE_DIR CCACHE_MAXSIZE
endif
endif

BUILD = $(Q)cmake --build build/$(1) -j $(JOBS) $(2) -- $(NINJA_FLAGS)
# One more job than two cores: some tests wait for a server or a clock.
TEST = $(Q)ctest --test-dir build/$(1) -j 3 --output-on-failure \
	--no-tests=error $(2)

.PHONY: all help deps-% run demo run-many test check style bench bench-cluster bench-peers sim sim-fresh \
	replays random random-fresh planted mutations fuzz crash fence coverage install uninstall format lint \
	includes requirements clean

all: build/release/build.ninja
	$(call BUILD,release)

help:
	@echo 'make run          build and run the demo'
	@echo 'make run-many     N=20 times with each store; STORE, SECONDS'
	@echo 'make test         all tests, debug build; TR_TEST_SCALE=$(TR_TEST_SCALE)'
	@echo 'make check        compilers, sanitizers, torture: all tests'
	@echo 'make style        checks of headers, layers, names, words, pages'
	@echo 'make sim          simulated scenarios, SEEDS=$(SEEDS)'
	@echo 'make sim-fresh    new seeds for SIM_SECONDS=$(SIM_SECONDS)'
	@echo 'make replays      compare traces of 100 seeds, REPLAYS=$(REPLAYS)'
	@echo 'make random       random programs, SECONDS=$(SECONDS) PRESET=$(PRESET)'
	@echo 'make random-fresh the same, with the address and thread sanitizers'
	@echo 'make planted      do the scenarios find planted bugs? ONLY=NN'
	@echo 'make mutations    do tests fail if their requirement is broken? ONLY=ID'
	@echo 'make crash        a saving process is killed, KILLS=$(KILLS) times'
	@echo 'make fence        processes of a cluster are paused and killed,'
	@echo '                  SECONDS=120 SEED LEASE_MS; BREAK=load, epoch or lease'
	@echo '                  leaves out a part of the fence and must fail'
	@echo 'make fuzz         every fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make bench        every workload of troupe-bench, SCALE=$(SCALE)'
	@echo 'make bench-cluster shards that move, names that are forgotten'
	@echo 'make bench-peers  the comparison with other actor systems'
	@echo 'make coverage     build/coverage/html/index.html'
	@echo 'make install      PREFIX=$(PREFIX), DESTDIR for packages'
	@echo 'make uninstall    remove the installed files'
	@echo 'make format       clang-format over the sources'
	@echo 'make lint         clang-tidy and the format, nothing is changed'
	@echo 'make includes     headers that are included and not used'
	@echo 'make requirements docs/requirements.md from the tests'
	@echo 'make clean        remove build/'

deps-%:
	$(Q)tools/deps.sh $*

.PRECIOUS: build/%/build.ninja
build/%/build.ninja: CMakePresets.json
	$(Q)mkdir -p build
	$(Q)echo 'configuring build/$*'
	$(Q)cmake --preset $* >build/$*.log 2>&1 || { cat build/$*.log; exit 1; }

# ---- run ----

# The demo reads STORE=postgres, KEEP=1, SECONDS=n, SIM=1, SEED=n and SEEDS=n
# itself.
run: deps-build $(if $(filter postgres,$(STORE)),deps-postgres) \
		build/release/build.ninja
	$(call BUILD,release,--target bank)
	$(Q)build/release/demo/bank $(ARGS)

demo: run

# Runs the demo N times with each store and prints a table of the results.
run-many: deps-build deps-postgres build/release/build.ninja
	$(call BUILD,release,--target bank)
	$(Q)tools/run_many.sh build/release/demo/bank

# ---- tests ----

test: deps-test build/dev/build.ninja
	$(call BUILD,dev)
	$(call TEST,dev)

# Every preset is tested even if an earlier one fails; the last line says
# which failed.
check: deps-test
	$(Q)failed=; for preset in $(CHECK_PRESETS); do \
		echo "== $$preset"; \
		$(MAKE) check-$$preset || failed="$$failed $$preset"; \
	done; \
	if [ -n "$$failed" ]; then echo "make check: failed:$$failed"; exit 1; fi

check-%: build/%/build.ninja
	$(call BUILD,$*)
	$(call TEST,$*)

style: deps-test build/dev/build.ninja
	$(call BUILD,dev)
	$(call TEST,dev,-L style)

# Continues after the seeds of the last call; build/sim-state.json keeps them.
sim: deps-test build/release/build.ninja
	$(call BUILD,release)
	$(Q)tools/sim_explore.py --seeds $(SEEDS) --jobs $(JOBS) \
		--state build/sim-state.json --keep tests/sim/seeds.txt \
		build/release/tests/sim/sim_*

# Checks that a seed gives the same trace each time and with both compilers.
REPLAYS ?= 100
REPLAY_SCENARIOS ?= bank virtual supervision_storm
replays: deps-test build/dev/build.ninja
	$(call BUILD,dev,--target $(REPLAY_SCENARIOS:%=sim_%))
	$(Q)TR_SOURCE_DIR=$(CURDIR) TR_BUILD_DIR=$(CURDIR)/build/dev TR_CC=gcc \
		TR_TEST_SCALE=10 TR_REPLAYS=$(REPLAYS) \
		TR_SCENARIOS="$(REPLAY_SCENARIOS)" tests/sim/replay_test.sh

# Runs new seeds for SIM_SECONDS; the hash of the commit is the first one.
SIM_BASE = $(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD \
		2>/dev/null || date +%s))
SIM_SECONDS ?= 30
sim-fresh: deps-test build/release/build.ninja
	$(call BUILD,release)
	$(Q)echo 'sim-fresh: seeds from $(SIM_BASE) for $(SIM_SECONDS) s'
	$(Q)tools/sim_explore.py --seeds 100000 --jobs $(JOBS) --fresh \
		--first $(SIM_BASE) --seconds $(SIM_SECONDS) --strict 1000000 \
		--state build/sim-fresh.json \
		build/release/tests/sim/sim_*

# Runs random programs from new seeds; MODE=threads, poll or sim picks one way.
SECONDS ?= 60
PRESET ?= release
MODE ?= all
random: deps-test build/$(PRESET)/build.ninja
	$(call BUILD,$(PRESET),--target random_programs)
	$(Q)TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
		$(if $(filter tsan,$(PRESET)),$$(setarch -R true 2>/dev/null && \
		echo setarch -R)) \
		build/$(PRESET)/tests/random/random_programs \
		--mode $(MODE) --seconds $(SECONDS)

# What CI runs: new seeds with both sanitizers.
RANDOM_SECONDS ?= 30
random-fresh:
	$(Q)$(MAKE) random PRESET=asan SECONDS=$(RANDOM_SECONDS)
	$(Q)$(MAKE) random PRESET=tsan SECONDS=$(RANDOM_SECONDS)

# Checks that the scenarios find planted bugs; ONLY=NN picks some.
ONLY ?=
planted: deps-test
	$(Q)tools/planted.py --seeds 10000 --jobs $(JOBS) \
		$(if $(ONLY),--only $(ONLY)) --table docs/planted-bugs.md

# Checks that the test of a requirement fails when the code breaks it.
mutations: deps-test
	$(Q)tools/mutations.py --jobs $(JOBS) \
		$(if $(ONLY),--only $(ONLY),--table docs/mutations.md)

crash: deps-test build/release/build.ninja
	$(call BUILD,release,--target crash_sqlite)
	$(Q)build/release/tests/crash/crash_sqlite $(KILLS)

# No update is lost or doubled and no read is stale while the processes of a
# cluster are paused and killed (docs/design/0015). BREAK=load, epoch or lease
# leaves out a part of the fence: then this must fail.
fence: SECONDS = 120
fence: deps-test build/release/build.ninja
	$(call BUILD,release,--target fence)
	$(Q)build/release/tests/fence/fence --seconds $(SECONDS) \
		$(if $(SEED),--seed $(SEED)) $(if $(BREAK),--break $(BREAK)) \
		$(if $(LEASE_MS),--lease-ms $(LEASE_MS)) \
		$(if $(UPDATES),--updates $(UPDATES))

fuzz: deps-test build/fuzz/build.ninja
	$(call BUILD,fuzz)
	$(Q)set -e; for program in build/fuzz/fuzz/*_fuzz; do \
		[ -x "$$program" ] || continue; \
		name=$$(basename "$$program" _fuzz); \
		mkdir -p build/fuzz/found/$$name tests/fuzz/corpus/$$name; \
		echo "== $$name, $(FUZZ_SECONDS) s"; \
		"$$program" -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=build/fuzz/found/$$name- \
			build/fuzz/found/$$name tests/fuzz/corpus/$$name; \
	done

coverage: deps-coverage build/coverage/build.ninja
	$(call BUILD,coverage)
	$(Q)find build/coverage -name '*.gcda' -delete
	$(call TEST,coverage)
	$(Q)lcov --quiet --capture --directory build/coverage \
		--include '$(CURDIR)/src/*' --output-file build/coverage/lines.info
	$(Q)genhtml --quiet --prefix $(CURDIR) build/coverage/lines.info \
		--output-directory build/coverage/html
	$(Q)lcov --summary build/coverage/lines.info
	$(Q)tools/coverage.py --least 90 --reasons docs/coverage-reasons.txt \
		--markdown docs/coverage.md

# ---- measuring ----

bench: deps-build build/release/build.ninja
	$(call BUILD,release,--target troupe-bench)
	$(Q)set -e; bench=build/release/bench/troupe-bench; \
	for workload in $$($$bench --list); do \
		$$bench $$workload --scale $(SCALE); \
	done

# Ends with 1 if a limit of the cluster is missed; ARGS goes to the program.
bench-cluster: deps-build build/release/build.ninja
	$(call BUILD,release,--target cluster-bench)
	$(Q)build/release/bench/cluster-bench $(ARGS)

bench-peers: deps-bench build/release/build.ninja
	$(call BUILD,release,--target troupe-bench)
	$(Q)if [ -x bench/peers/run.sh ]; then bench/peers/run.sh; \
	else echo 'bench/peers/run.sh: not there'; exit 1; fi

# ---- installing ----

# Says what it builds while it does: there are some hundred steps.
install: deps-install build/release/build.ninja
	$(Q)echo 'building libtroupe (release) in build/release'
	$(Q)NINJA_STATUS='[%f of %t, %e s] ' cmake --build build/release \
		-j $(JOBS) --target installed -- $(filter-out --quiet,$(NINJA_FLAGS))
	$(Q)echo 'installing in $(DESTDIR)$(PREFIX)'
	$(Q)tools/install.sh build/release '$(PREFIX)' '$(DESTDIR)'

uninstall: build/release/build.ninja
	$(call BUILD,release,--target installed)
	$(Q)tools/uninstall.sh build/release '$(PREFIX)' '$(DESTDIR)'

# ---- format, lint, generated pages ----

# Writes docs/requirements.md: which test covers which requirement.
requirements:
	$(Q)tools/requirements.py

SOURCES = $(shell git ls-files '*.c' '*.h' '*.hpp' '*.cc')

format: deps-lint
	$(Q)clang-format-19 -i $(SOURCES)

lint: deps-lint deps-test build/clang/build.ninja
	$(Q)clang-format-19 --dry-run -Werror $(SOURCES)
	$(Q)tools/lint.py --jobs $(JOBS) build/clang

# Reports headers that a source includes and does not use, with MISSING=1 also
# those that it uses and does not include. FIX=1 rewrites the includes.
FIX ?=
MISSING ?=
includes: deps-lint deps-test build/clang/build.ninja
	$(Q)tools/check_includes.py --jobs $(JOBS) $(if $(FIX),--fix) \
		$(if $(MISSING),--missing) build/clang

clean:
	$(Q)rm -rf build
