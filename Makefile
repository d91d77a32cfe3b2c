# A thin front of CMake: `make` lists the targets. Build folders are build/release, build/debug,
# build/asan and build/tsan; jobs/build.sh sets up what is missing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help deps demo test test-slurm test-compare test-verbs test-verbs-all test-hardware test-gpu release debug asan tsan bench format tidy clean

CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format) clang-format)
CTEST = ctest --output-on-failure --no-tests=error -j $$(nproc) --test-dir
SOURCES = git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh'

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

deps: ## install what building, testing and linting need, or say what is missing
	@jobs/build.sh deps tests,bench,lint

demo: ## build, push a model and a 1 GiB tensor between ranks on this machine, show the results
	@jobs/build.sh release core weightlift
	@jobs/demo.sh build/release

test: ## build and run all tests
	@jobs/build.sh release tests
	@$(CTEST) build/release

test-compare: ## hold compare against itself on 90 real launches: false alarms, planted slowdowns
	@jobs/build.sh release tests weightlift
	@source jobs/mpirun.sh build/release && WEIGHTLIFT=build/release/weightlift MPIEXEC="$${mpirun[*]}" tests/compare/aa.py $(AA)

# WEIGHTLIFT_SKIP_LAB=1 runs neither; tests/lab/run.sh runs single suites.
test-verbs: ## run the RDMA tests on software devices in a virtual machine (10 minutes)
	@tests/lab/run.sh ci

test-verbs-all: ## run every end-to-end push in every kind of RDMA connection there (an hour)
	@tests/lab/run.sh all

test-slurm: ## run the job scripts on a Slurm of our own on this machine (root; 3 minutes)
	@tests/slurm/run.sh

test-hardware: ## run the conformance suite on the RDMA devices of this machine
	@jobs/build.sh release tests,verbs weightlift transport_conformance
	@build/release/weightlift doctor --transport verbs
	@WEIGHTLIFT_LAB_BUILD=build/release MPIEXEC="mpirun --oversubscribe --allow-run-as-root" tests/lab/conformance_test.sh

test-gpu: ## run the tests that need a GPU, their kernels under compute-sanitizer as well
	@jobs/build.sh release tests,cuda gpu_tests
	@tests/gpu/run.sh build/release

release: ## build everything, optimized
	@jobs/build.sh release core

debug: ## build everything, with debug information and checked containers
	@jobs/build.sh debug core

# Left out of asan: what costs minutes and does the same many times over. The MPI tests run without
# leak detection: Open MPI unloads plugins that still own memory, which no suppression can name.
asan: ## build and run the tests with address and undefined-behaviour sanitizers
	@jobs/build.sh asan tests
	@$(CTEST) build/asan -LE 'mpi|end-to-end' -E crash
	@ASAN_OPTIONS=detect_leaks=0 $(CTEST) build/asan -L 'mpi|end-to-end' -E 'large|refusal|command_line|plan'

# Only the watchdog has a thread of its own.
tsan: ## build and run the tests of threads with the thread sanitizer
	@jobs/build.sh tsan tests unit_mpi mpi_communicator mpi_lost_rank
	@$(CTEST) build/tsan -R '^(unit_mpi|mpi_)'

bench: ## build and run the benchmarks; BENCH_OUT=results/bench keeps them as JSON and HDF5
	@jobs/build.sh release bench weightlift benchmarks
	@jobs/bench.sh build/release $(BENCH_OUT)

format: ## format the sources in place
	@$(SOURCES) | xargs -r $(CLANG_FORMAT) -i

tidy: ## run clang-tidy over the whole tree
	@jobs/build.sh release tests,bench,lint
	@tests/support/tidy.sh build/release $$(git ls-files '*.cpp')

clean: ## remove the build folders
	rm -rf build
