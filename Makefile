# schedlab in two commands: `make run` does the main job, `make test` passes the tests.
# Both install what is missing first; `make setup` is that alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes
# Debian packages: to build (the compiler and libelf are for BPF), and to run every test.
BUILD_PACKAGES := gcc g++ make pkg-config clang libelf-dev zlib1g-dev python3-venv util-linux
KERNEL_PACKAGES := acpica-tools grub-pc-bin grub2-common qemu-system-x86 busybox-static cpio e2fsprogs xz-utils
TEST_PACKAGES := babeltrace2 blktrace btrfs-progs chromium fio grub2-common hdparm nodejs strace time tmux xfsprogs xz-utils zstd
PACKAGING_PACKAGES := buildah dpkg-dev mmdebstrap
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml' -o -name '*.c' -o -name '*.h')

.PHONY: run setup test test-all test-cases test-machine test-kernels test-virtual test-boots test-fleet wheel test-wheel deb image test-packages docs mutants fuzz lint lock clean

# Without root, or where no loop device may be used, it takes a kernel in virtual time with an emulated
# disk. Only that needs the simulators, which are kept up to date where they are.
run: $(VENV)/built $(wildcard $(VENV)/simulators)
	@if [ "$$(id -u)" = 0 ] && losetup --find >/dev/null 2>&1; then \
	  $(BIN)/schedlab compare --scratch 1G --quick; \
	else make --no-print-directory $(VENV)/simulators && packaging/run-without-root $(BIN)/schedlab; fi

setup: $(VENV)/built $(VENV)/simulators $(VENV)/test-tools

test: setup
	tests/run-all

# All of them: each repeats once what failed, and notes its pass in docs/reference/verified.md.
test-all: test test-wheel test-cases test-machine test-fleet test-packages test-virtual test-kernels test-boots

# All cases of the tests of which `make test` runs some by turns.
test-cases: setup
	tests/suite cases

# What is true only on a quiet machine: one test after the other; a busy one is "too busy to tell".
test-machine: setup
	tests/suite machine

# Two wheels, of schedlab and of its simulators, that need no compiler, no clang and no Rust where they
# are installed.
wheel: setup
	packaging/wheel

# Installs the wheels into an empty environment and uses it there without root and without compilers,
# with a kernel in virtual time as well.
test-wheel: wheel
	@tests/install-packages $(KERNEL_PACKAGES)
	tests/suite wheel

# What installs without Rust: a Debian package for this release, and an OCI image with it.
deb: wheel
	packaging/deb dist

image: deb
	@tests/install-packages $(PACKAGING_PACKAGES)
	packaging/image dist/*.deb

# Uses both in clean roots; needs root.
test-packages: image
	tests/suite packages

# One changed place at a time, and the tests that should notice: ROOM of Python, or CRATE of Rust.
ROOM ?= analyse
SAMPLE ?= 40
mutants: setup $(VENV)/tools
	$(if $(CRATE),cargo mutants --package $(CRATE) --output target $(MUTANTS),$(BIN)/python tests/mutants.py $(ROOM) $(SAMPLE))

# Damaged traces, files to import, result folders and journals: SECONDS for each.
SECONDS ?= 60
fuzz: setup
	cargo run --quiet --release --locked -p schedlab-fuzz -- all $(SECONDS)
	cd target && ../$(BIN)/python ../fuzz/importers.py $(SECONDS)
	rm -rf target/fuzz-result
	$(BIN)/schedlab sim compare --workloads A --requests 500 --seeds 3 --out target/fuzz-result >/dev/null
	cd target && ../$(BIN)/python ../fuzz/folders.py fuzz-result $(SECONDS)

# The documents as a site, in target/site; a link that leads nowhere is an error.
docs: setup $(VENV)/tools
	$(BIN)/mkdocs build --strict --quiet --site-dir target/site

# Boots the distribution's kernels in qemu and runs the smoke tests in each.
test-kernels: setup
	@tests/install-packages $(KERNEL_PACKAGES)
	tests/suite kernels

# A kernel of the distribution in virtual time (`schedlab kernel`).
test-virtual: setup
	@tests/install-packages $(KERNEL_PACKAGES)
	$(BIN)/schedlab kernel get 6.12
	$(BIN)/schedlab kernel get 7.2
	tests/suite virtual

# Hosts of a fleet: four sshd in namespaces of this machine. Needs root; sshd is unpacked, not started.
test-fleet: setup
	@tests/install-packages iproute2 libwrap0 openssh-client util-linux
	@tests/unpack openssh-server sshd target/openssh
	tests/suite fleet

# Two kernels and a boot parameter in random order, one boot killed and one foreign (`schedlab boots`).
test-boots: setup
	@tests/install-packages $(KERNEL_PACKAGES)
	tests/suite boots

lint: setup
	tests/run-all --lint-only

# What it runs with is installed while the extension compiles; its profile is for a quick build.
BUILD := maturin develop --profile quick --locked --quiet
$(VENV)/built: $(VENV)/maturin requirements.lock pyproject.toml $(RUST_SOURCES)
	@command -v cargo >/dev/null || { echo "error: cargo is not installed"; echo "hint: install Rust, then run make again"; exit 2; }
	@[ -e /usr/include/libelf.h ] || echo "note: without libelf-dev and clang bursts are captured by perf, not by BPF"
	. $(BIN)/activate; features=$$([ -e /usr/include/libelf.h ] || echo --no-default-features); \
	  $(BUILD) --skip-install $$features & compiling=$$!; \
	  $(PIP) -r requirements.lock && wait $$compiling && PIP_QUIET=1 $(BUILD) $$features
	@touch $@

# The simulators, a package of its own.
$(VENV)/simulators: $(VENV)/built python/schedlab_sim/pyproject.toml
	. $(BIN)/activate; cd python/schedlab_sim && PIP_QUIET=1 $(BUILD)
	@touch $@

$(VENV)/maturin: build.lock
	@tests/install-packages $(BUILD_PACKAGES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11"; echo "hint: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r build.lock
	@touch $@

# What the tests use: Python packages, Debian packages, and programs that are unpacked only.
$(VENV)/test-tools: $(VENV)/maturin test.lock
	$(PIP) -r test.lock
	@tests/install-packages $(TEST_PACKAGES)
	@tests/unpack udev udevadm target/udev
	@tests/unpack iozone3 iozone target/iozone
	@tests/unpack systemd-boot bootctl target/systemd-boot
	@touch $@

# What only `make docs` and `make mutants` need.
$(VENV)/tools: tools.lock $(VENV)/test-tools
	$(PIP) -r tools.lock
	@touch $@

# Renew the lock files after a change of the dependencies in pyproject.toml.
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
lock: setup
	$(COMPILE) --only-build-deps --build-deps-for=wheel -o build.lock pyproject.toml
	$(COMPILE) -o requirements.lock pyproject.toml
	$(COMPILE) $(addprefix --extra=,tune arrow fleet dask pandas dev) \
	  --constraint requirements.lock -o test.lock pyproject.toml
	$(COMPILE) --extra=tools --constraint test.lock -o tools.lock pyproject.toml

clean:
	rm -rf $(VENV) target dist
	find python -name '*.so' -delete
