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

# Stress counts are multiplied by this; the tests read it themselves. 1 is the
# whole of them, which takes ten times as long.
TR_TEST_SCALE ?= 0.1
export TR_TEST_SCALE

BUILD = $(Q)cmake --build build/$(1) -j $(JOBS) $(2) -- $(NINJA_FLAGS)
# One more than two cores: some tests wait for a server or a clock.
TEST = $(Q)ctest --test-dir build/$(1) -j 3 --output-on-failure \
	--no-tests=ignore $(2)

.PHONY: all help deps-% run demo run-many test check style bench bench-peers sim sim-fresh \
	replays planted mutations fuzz crash coverage install uninstall format lint \
	requirements clean

all: build/release/build.ninja
	$(call BUILD,release)

help:
	@echo 'make run          build and run the demo'
	@echo 'make run-many     N=20 times with each store; STORE, SECONDS'
	@echo 'make test         all tests, debug build; TR_TEST_SCALE=$(TR_TEST_SCALE)'
	@echo 'make check        compilers, sanitizers, torture: all tests'
	@echo 'make style        headers, layers, symbols'
	@echo 'make sim          simulated scenarios, SEEDS=$(SEEDS)'
	@echo 'make sim-fresh    fresh seeds for SIM_SECONDS=$(SIM_SECONDS)'
	@echo 'make replays      100 seeds, REPLAYS=$(REPLAYS) times: the same steps?'
	@echo 'make planted      small bugs in the library: found? ONLY=NN'
	@echo 'make mutations    broken requirements: does their test fail? ONLY=ID'
	@echo 'make crash        a saving process is killed, KILLS=$(KILLS) times'
	@echo 'make fuzz         every fuzzer for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make bench        every workload of troupe-bench, SCALE=$(SCALE)'
	@echo 'make bench-peers  the comparison with other actor systems'
	@echo 'make coverage     build/coverage/html/index.html'
	@echo 'make install      PREFIX=$(PREFIX), DESTDIR for packages'
	@echo 'make uninstall    the same files away again'
	@echo 'make format       clang-format over the sources'
	@echo 'make lint         clang-tidy and the format, nothing is changed'
	@echo 'make requirements docs/requirements.md from the tests'
	@echo 'make clean        remove build/'

deps-%:
	$(Q)tools/deps.sh $*

.PRECIOUS: build/%/build.ninja
build/%/build.ninja: CMakePresets.json
	$(Q)mkdir -p build
	$(Q)cmake --preset $* >build/$*.log 2>&1 || { cat build/$*.log; exit 1; }

# ---- run ----

# STORE=postgres, KEEP=1, SECONDS=n, SIM=1 and SEED=n reach it as they are.
run: deps-build $(if $(filter postgres,$(STORE)),deps-postgres) \
		build/release/build.ninja
	$(call BUILD,release,--target bank)
	$(Q)build/release/demo/bank $(ARGS)

demo: run

# N times with each store, and a table of how they ended; see the script.
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

# Goes on where the last call ended; build/sim-state.json has the sums.
sim: deps-test build/release/build.ninja
	$(call BUILD,release)
	$(Q)tools/sim_explore.py --seeds $(SEEDS) --jobs $(JOBS) \
		--state build/sim-state.json --keep tests/sim/seeds.txt \
		build/release/tests/sim/sim_*

# The same seeds again and again, and with the other compiler: the same steps?
REPLAYS ?= 100
REPLAY_SCENARIOS ?= bank virtual supervision_storm
replays: deps-test build/dev/build.ninja
	$(call BUILD,dev,--target $(REPLAY_SCENARIOS:%=sim_%))
	$(Q)TR_SOURCE_DIR=$(CURDIR) TR_BUILD_DIR=$(CURDIR)/build/dev TR_CC=gcc \
		TR_TEST_SCALE=10 TR_REPLAYS=$(REPLAYS) \
		TR_SCENARIOS="$(REPLAY_SCENARIOS)" tests/sim/replay_test.sh

# Fresh seeds for SIM_SECONDS, from a number that the commit decides.
SIM_BASE = $(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD \
		2>/dev/null || date +%s))
SIM_SECONDS ?= 30
# Scenarios with a failure that is known and open: docs/design/0005.
SIM_OPEN :=
sim-fresh: deps-test build/release/build.ninja
	$(call BUILD,release)
	$(Q)echo 'sim-fresh: seeds from $(SIM_BASE) for $(SIM_SECONDS) s'
	$(Q)tools/sim_explore.py --seeds 100000 --jobs $(JOBS) --fresh \
		--first $(SIM_BASE) --seconds $(SIM_SECONDS) --strict 1000000 \
		--state build/sim-fresh.json \
		$$(ls build/release/tests/sim/sim_* | grep -vE \
			'sim_($(subst $() ,|,$(SIM_OPEN)))$$')

# Whether the scenarios find bugs that are put in; ONLY=NN picks some.
ONLY ?=
planted: deps-test
	$(Q)tools/planted.py --seeds 10000 --jobs $(JOBS) \
		$(if $(ONLY),--only $(ONLY)) --table docs/planted-bugs.md

# Whether the test of a requirement fails when the code breaks it.
mutations: deps-test
	$(Q)tools/mutations.py --jobs $(JOBS) \
		$(if $(ONLY),--only $(ONLY),--table docs/mutations.md)

crash: deps-test build/release/build.ninja
	$(call BUILD,release,--target crash_sqlite)
	$(Q)build/release/tests/crash/crash_sqlite $(KILLS)

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

bench-peers: deps-bench build/release/build.ninja
	$(call BUILD,release,--target troupe-bench)
	$(Q)if [ -x bench/peers/run.sh ]; then bench/peers/run.sh; \
	else echo 'bench/peers/run.sh: not there'; exit 1; fi

# ---- installing ----

install: deps-install build/release/build.ninja
	$(call BUILD,release,--target installed)
	$(Q)tools/install.sh build/release '$(PREFIX)' '$(DESTDIR)'

uninstall: build/release/build.ninja
	$(call BUILD,release,--target installed)
	$(Q)tools/uninstall.sh build/release '$(PREFIX)' '$(DESTDIR)'

# ---- the look of the sources ----

# Which test covers which requirement.
requirements:
	$(Q)tools/requirements.py

SOURCES = $(shell git ls-files '*.c' '*.h')

format: deps-lint
	$(Q)clang-format -i $(SOURCES)

lint: deps-lint deps-test build/clang/build.ninja
	$(Q)clang-format --dry-run -Werror $(SOURCES)
	$(Q)clang-tidy --quiet -p build/clang $(filter src/%.c,$(SOURCES))

clean:
	$(Q)rm -rf build
