# make demo | make test | make bench: each installs what is missing, builds, runs.
BUILD := build/release
JOBS ?= $(shell nproc)

.PHONY: demo test bench build setup configure format clean

setup:
	tools/setup.sh

configure: setup
	@test -f $(BUILD)/build.ninja || cmake --preset release

demo: configure
	cmake --build $(BUILD) --target slift -j $(JOBS)
	$(BUILD)/slift demo

build: configure
	cmake --build $(BUILD) -j $(JOBS)

# Two tests at a time: idle OpenMP threads must not spin then.
test: build
	OMP_WAIT_POLICY=passive ctest --test-dir $(BUILD) -j 2 --output-on-failure

bench: configure
	tools/setup.sh bench
	cmake --build $(BUILD) --target slift bench_mlp_training bench_unet_training -j $(JOBS)
	/usr/bin/python3 bench/mlp_training.py $(BUILD)/bench/bench_mlp_training
	/usr/bin/python3 bench/unet_training.py $(BUILD)/bench/bench_unet_training
	bench/busy_machine.py $(BUILD)/slift

format:
	tools/check_format.sh --fix

clean:
	rm -rf build
