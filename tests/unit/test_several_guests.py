"""Of several packages, suites, archives, files, modules or programs each counts: kernels that are
fetched, and the image and the archive that a guest boots."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_guest import bz_image, module

from schedlab.errors import HostError, SpecError
from schedlab.guest import cache, image, initramfs, kernels, machine, monitor, place

ORDERS = [1, -1]


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """A stand-in for apt: the packages that each place of sources has, and what was run."""
    known = SimpleNamespace(places={None: [], "later": []}, ran=[])

    def answer(command, cwd=None):
        known.ran.append(command)
        return "\n".join(known.places["later" if "later" in command else None])

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kernels, "_own_lists", lambda place: [place] if place else [])
    monkeypatch.setattr(kernels, "_later_suites", lambda: "later")
    monkeypatch.setattr(kernels, "_apt", answer)
    return known


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [None, "later"])
def test_the_newest_package_of_a_version_is_found_in_any_suite(apt, place, order):
    apt.places[None] = ["linux-image-6.1.0-9-amd64", "linux-image-amd64"]
    apt.places[place] = [*apt.places[None], *(
        f"linux-image-6.12.{minor}+deb13-amd64" for minor in (9, 48, 10)[::order])]  # fmt: skip
    own = ["later"] if place else []
    assert kernels._package_of("6.12") == ("linux-image-6.12.48+deb13-amd64", own)


def test_a_version_that_no_suite_has_is_refused_with_all_that_there_are(apt):
    apt.places = {None: ["linux-image-6.1.0-9-amd64", "linux-image-5.10.2-amd64"],
                  "later": ["linux-image-6.12.9-amd64"]}  # fmt: skip
    with pytest.raises(HostError, match=r"\(there are 5\.10, 6\.1, 6\.12\)"):
        kernels._package_of("4.19")


def test_every_part_of_a_package_is_fetched_and_unpacked(apt, monkeypatch):
    apt.places[None] = [" Depends: linux-binary-7.0", " PreDepends: linux-modules-7.0",
                        " Depends: kmod", "  Conflicts: linux-modules-6"]  # fmt: skip
    parts = kernels._parts_of("linux-image-7.0-amd64", ["-o", "x=y"])
    assert parts == ["linux-binary-7.0", "linux-modules-7.0"]
    assert apt.ran[0][1:3] == ["-o", "x=y"]
    unpacked = []

    def fetch(command, cwd):
        assert command[-3:] == ["linux-image-7.0-amd64", *parts]
        for name in command[-3:]:
            (cwd / f"{name}.deb").touch()

    def unpack(program, _, archive, root):
        unpacked.append(Path(archive).stem)
        Path(root).mkdir(exist_ok=True)

    monkeypatch.setattr(kernels, "_package_of", lambda version: ("linux-image-7.0-amd64", []))
    monkeypatch.setattr(kernels, "_parts_of", lambda *_: parts)
    monkeypatch.setattr(kernels, "_apt", fetch)
    monkeypatch.setattr(kernels, "_output", unpack)
    monkeypatch.setattr(kernels, "find", lambda name: name)
    assert kernels.get("7.0") == "7.0-amd64"
    assert sorted(unpacked) == sorted(["linux-image-7.0-amd64", *parts])


def test_the_first_file_of_options_that_is_there_counts_with_all_its_lines(tmp_path):
    for name, text in (("b", 'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_HZ="250"\n'),
                       ("c", "CONFIG_C=y\n")):  # fmt: skip
        (tmp_path / name).write_text(text)
    options = kernels._options([tmp_path / name for name in "abc"])
    assert options == {"CONFIG_A": "y", "CONFIG_HZ": "250"}
    lacking = kernels.Kernel("x", tmp_path, None, {"CONFIG_OVERLAY_FS": "m", "CONFIG_DEVPORT": "y"})
    assert lacking.lacks == ("CONFIG_EXT4_FS", "CONFIG_BLK_DEV_PMEM", "CONFIG_ACPI_NFIT")


def test_every_module_is_in_the_archive_with_its_words_after_what_it_needs(tmp_path, monkeypatch):
    root = tmp_path / "lib/modules/6.99.1-test/kernel"
    module(root / "loop.ko", "one,two", "pre: three post: four")
    for name in ("one", "two", "three", "four", "bfq", "null_blk", "unused"):
        module(root / f"{name}.ko")
    (tmp_path / "busybox").write_bytes(b"box")
    monkeypatch.setattr(initramfs.shutil, "which", lambda name: str(tmp_path / name))
    options = "CONFIG_ONE=y\nCONFIG_TWO=m"
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-6.99.1-test").write_text(options)
    packed = initramfs.initramfs(kernels.find(str(bz_image(tmp_path / "boot/vmlinuz"))))
    order = b"one\ntwo\nthree\nfour\nloop\nbfq\nnull_blk nr_devices=0\n"
    names = [line.split()[0].decode() for line in order.splitlines()]
    assert order in packed and b"unused" not in packed
    files = (*(f"modules/{name}.ko" for name in names), "bin/busybox", "init")
    assert b"boot/config-6.99.1-test\0" in packed and options.encode() in packed
    for name in (*files, *initramfs._DIRECTORIES):
        assert name.encode() + b"\0" in packed, name


@pytest.mark.parametrize("at", range(4))
def test_an_image_is_another_when_any_file_of_any_source_is(tmp_path, at):
    files = [tmp_path / source / name for source in "ab" for name in "xy"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("1")
    sources = [(tmp_path / source, Path("/", source)) for source in "ab"]
    before = image.digest_of(sources)
    assert image.digest_of(sources) == before
    files[at].write_text("12")
    assert image.digest_of(sources) != before


def test_libraries_are_those_of_all_programs_and_of_all_that_a_source_holds(tmp_path, monkeypatch):
    asked, own = [], []

    def ldd(command, **_):
        asked.extend(command[1:])
        return SimpleNamespace(stdout="".join(
            f"\tx => {place}/{Path(name).name}-{n}.so (0x1)\n" for name in command[1:]
            for n in range(2) for place in ("/usr/lib", *own)))  # fmt: skip

    monkeypatch.setattr(image.subprocess, "run", ldd)
    programs = [f"/bin/p{number}" for number in range(250)]
    found = image.libraries_of(programs)
    assert asked == programs
    assert found == {f"/usr/lib/p{at}-{n}.so" for at in range(250) for n in range(2)}
    own += [f"{tmp_path}/c", f"{tmp_path}/f/lib", "/usr/x/../lib"]  # brought anyhow, or twice
    elf = [tmp_path / name for name in ("a", "b", "c/d", "c/e", "f/g")]
    for file in elf:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"\x7fELF")
    (tmp_path / "c/text").write_text("x")
    sources = [(tmp_path / name, Path("/", name)) for name in ("a", "c", "b", "f")]
    monkeypatch.setattr(image, "_sources", lambda: sources)
    assert image._libraries(tmp_path) == {
        f"/usr/lib/{name}-{n}.so" for name in "abdeg" for n in range(2)
    }


def test_a_root_has_all_sources_libraries_and_files_of_its_own_at_one_time(tmp_path, monkeypatch):
    made = [tmp_path / name for name in ("a/1", "a/2", "b/1", "b/2", "lib/x.so", "lib64/y.so")]
    for size, file in enumerate(made, 1):
        file.parent.mkdir(exist_ok=True)
        file.write_text("x" * size)
    sources, libraries = [(tmp_path / name, Path("/at", name)) for name in "ab"], made[4:]
    indexed = []
    monkeypatch.setattr(image, "_sources", lambda: sources)
    monkeypatch.setattr(image, "_libraries", lambda tree: {*map(str, libraries)})
    monkeypatch.setattr(image, "_index", lambda tree, places: indexed.extend(places))
    monkeypatch.setattr(image, "_compile", lambda tree: None)
    tree = tmp_path / "tree"
    image._lay_out(tree)
    assert [len((tree / "at" / file.relative_to(tmp_path)).read_text()) for file in made[:4]] == [
        1, 2, 3, 4
    ]  # fmt: skip
    assert all((tree / str(file).lstrip("/")).is_file() for file in libraries)
    assert {str((tree / name).readlink()) for name in ("bin", "sbin", "lib", "lib64")} == {
        "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"
    }  # fmt: skip
    assert sorted(indexed) == [str(file.parent) for file in libraries]
    assert all((tree / "etc" / name).read_text() == text for name, text in image._WRITTEN.items())
    assert {path.lstat().st_mtime for path in (tree, *tree.rglob("*"))} == {1.0}

    def refused(place, size_bytes, *_):
        raise HostError(str(size_bytes), "")

    monkeypatch.setattr(image, "require_space", refused)
    with pytest.raises(HostError, match=f"^{image._SPACE * (1 + 2 + 3 + 4)}$"):
        image._make(tmp_path / "root.img")


def test_every_package_with_its_own_every_tool_and_every_file_is_a_source(tmp_path, monkeypatch):
    """schedlab needs a and b, a needs c, and an extra needs d; b has two tops. The simulators are a
    package of their own, which may be missing.
    """
    needs = {"schedlab": ["A>=1", "b; python_version > '3'", "d; extra == 'x'"], "a": ["c_c"],
             "b": None, "c-c": ["a"], "d": [], "schedlab_sim": ["schedlab==1"]}  # fmt: skip
    files = {"b": ["b/x.py", "b/y.py", "b.libs/z.so", "../bin/b", "bin/b", "__pycache__/q"],
             "a": ["a.py"], "c-c": ["c.py", "gone/x"],
             "schedlab": ["s.dist-info/RECORD", "s.dist-info/entry_points.txt"],
             "schedlab_sim": ["t.dist-info/entry_points.txt"]}  # fmt: skip
    monkeypatch.setattr(image, "PACKAGE", tmp_path / "schedlab")
    own = {"schedlab", "schedlab.libs", "schedlab_sim"}
    for name in ("b", "b.libs", "bin", "__pycache__", *own):
        (tmp_path / name).mkdir()
    for name in ("a.py", "c.py", "tool1", "tool2", "file1", "file2"):
        (tmp_path / name).touch()

    def distribution(name):
        if name not in needs:
            raise image.metadata.PackageNotFoundError(name)
        return SimpleNamespace(requires=needs[name], files=files.get(name, ()),
                               locate_file=lambda top: tmp_path / top)  # fmt: skip

    monkeypatch.setattr(image.metadata, "distribution", distribution)
    monkeypatch.setattr(image, "_TOOLS", ("tool1", "absent", "tool2"))
    monkeypatch.setattr(image, "_FILES", (*(str(tmp_path / f"file{n}") for n in "1x2"),))
    monkeypatch.setattr(image.shutil, "which", lambda name, path:
                        str(tmp_path / name) if (tmp_path / name).exists() else None)  # fmt: skip
    assert image._distributions() == ["a", "b", "c-c"]
    found = dict(image._sources()[2:])
    points = {f"{name}.dist-info/entry_points.txt" for name in "st"}
    tops = {"a.py", "b", "b.libs", "c.py", *own, *points}
    assert found == {
        **{tmp_path / top: image.PACKAGES / top for top in tops},
        **{tmp_path / name: tmp_path / name for name in ("tool1", "tool2", "file1", "file2")},
    }
    assert {tmp_path / name for name in ("a.py", "c.py", "tool1", "file2")} <= image.files().keys()
    del needs["schedlab_sim"]
    left = {"schedlab_sim", "t.dist-info/entry_points.txt"}
    assert found.keys() - {source for source, _ in image._sources()} == {tmp_path / n for n in left}


def test_all_that_is_below_a_source_is_in_it_but_tests_and_bytecode(tmp_path):
    kept = [tmp_path / name for name in ("a", "b", "d/a", "d/e/a", "f/a")]
    for file in (*kept, tmp_path / "x.pyi", tmp_path / "y.a", tmp_path / "d/tests/a",
                 tmp_path / "__pycache__/a"):  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert sorted(image._files_of(tmp_path)) == kept
    assert [*image._files_of(kept[0])] == kept[:1]


@pytest.mark.parametrize("lacking", ["mke2fs", "ldd"])
def test_each_program_that_makes_an_image_has_to_be_there(tmp_path, monkeypatch, lacking):
    monkeypatch.setattr(image.shutil, "which", lambda name, path: name != lacking)
    with pytest.raises(HostError, match=f"{lacking} is not installed"):
        image._make(tmp_path / "x")


@pytest.mark.parametrize("lacking", ["apt-get", "apt-cache", "dpkg-deb"])
def test_each_program_that_fetches_a_kernel_has_to_be_there(monkeypatch, lacking):
    monkeypatch.setattr(kernels.shutil, "which", lambda name: name != lacking)
    with pytest.raises(HostError, match=f"{lacking} is not on this machine"):
        kernels.get("6.1")


def test_an_image_is_as_large_as_all_its_files_and_made_in_one_way(tmp_path, monkeypatch):
    """Blocks of 4 KiB: of one byte, of none, and of two blocks and a half."""
    sizes, ran = {"a": 1, "b/c": 0, "d": 10 << 10}, []

    def lay_out(tree):
        for name, size in sizes.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(bytes(size))

    def run(command, **more):
        ran.append(([each.replace(str(tmp_path), "") for each in command], more.get("env")))
        Path(next(word for word in command if word.endswith("new.img"))).touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(image, "_sources", list)
    monkeypatch.setattr(image, "_lay_out", lay_out)
    monkeypatch.setattr(image, "_FREE_SHARE", 1000)
    monkeypatch.setattr(image.subprocess, "run", run)
    image._make(tmp_path / "x.img")
    (made, env), (times, _) = ran
    assert env == image._FIXED
    assert made[0] == "mke2fs" and times[0] == "debugfs"
    options = dict(zip(made[2:-2:2], made[3:-2:2], strict=True))
    assert {*options} == {"-t", "-d", "-U", "-m", "-O", "-I", "-b", "-E"}
    assert options["-t"] == "ext4" and options["-U"] == image._UUID
    blocks = 1 + 1 + 3 + 1  # and the directory
    assert made[-1] == f"{((blocks << 12) * 1000 + (16 << 20) >> 21 << 21) >> 10}k"
    assert [*tmp_path.iterdir()] == [tmp_path / "x.img"]


def test_bytecode_is_made_of_the_interpreter_and_of_all_packages(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        image.subprocess, "run", lambda command, **more: ran.append((command, more))
    )
    monkeypatch.setenv("ONE", "1")
    image._compile(tmp_path)
    ((command, more),) = ran
    assert command[-2:] == [f"{tmp_path}{image.PYTHON}/lib", f"{tmp_path}{image.PACKAGES}"]
    assert command[1:5] == ["-m", "compileall", "-q", "-f"]
    assert command[-4:-2] == ["--invalidation-mode", "unchecked-hash"]
    assert (more["env"]["ONE"], more["env"]["PYTHONHASHSEED"]) == ("1", "0")


def test_the_words_of_all_dependencies_of_a_module_count():
    content = b"x\0depends=a,b\0y\0softdep=pre: c d post: e\0softdep=pre: f\0depends=g\0"
    assert kernels._depends(content) == ["a", "b", "g", "c", "d", "e", "f"]


def test_modules_that_need_each_other_are_loaded_once(tmp_path):
    root = tmp_path / "lib/modules/6.99.1-test"
    module(root / "a.ko", "b-b-b,c")
    module(root / "b-b_b.ko", "c,a")
    module(root / "c.ko", "a,b_b-b")
    found = kernels.find(str(bz_image(tmp_path / "boot/vmlinuz")))
    assert sorted(found.with_dependencies(["a", "c", "b-b_b", "a"])) == ["a", "b_b_b", "c"]


@pytest.mark.parametrize(("suffix", "program"), [(".zst", "zstd"), (".gz", "gzip")])
def test_each_kind_of_compressed_module_has_its_program(tmp_path, monkeypatch, suffix, program):
    monkeypatch.setattr(kernels, "_output", lambda *words: words)
    (tmp_path / f"a.ko{suffix}").touch()
    found = kernels.Kernel("x", tmp_path, tmp_path, {"CONFIG_BFQ": "m"})
    assert found.module("a") == (program, "-dc", str(tmp_path / f"a.ko{suffix}"))


def test_modules_are_found_beside_a_kernel_at_any_height_and_all_kernels_are_told(
    tmp_path, monkeypatch
):
    for modules in ("lib/modules", "usr/lib/modules"):
        for depth in range(3):
            top = tmp_path / modules.replace("/", "-") / str(depth)
            file = bz_image(top / "/".join("abc"[:depth]) / "bzImage")
            (top / modules / "6.99.1-test").mkdir(parents=True)
            assert kernels.kernel_of(file).modules == top / modules / "6.99.1-test"
    found = [SimpleNamespace(release=name) for name in ("6.1.0", "6.6.0", "6.12.0")]
    monkeypatch.setattr(kernels, "every", lambda: found)
    with pytest.raises(SpecError, match=r"\(here: 6\.1\.0, 6\.6\.0, 6\.12\.0\)"):
        kernels.find("6.2")
    assert kernels.find("6.6").release == "6.6.0"


def test_all_that_a_kernel_offers_or_lacks_is_told(tmp_path):
    options = {option: "y" for name, option in kernels.OFFERS.items() if name != "bfq"}
    found = kernels.Kernel("x", tmp_path, None, options)
    assert [*found.offers] == [name for name in kernels.OFFERS if name != "bfq"]
    assert all(found.has(name) is (name != "bfq") for name in kernels.OFFERS)
    assert found.schedulers == tuple(name for name in kernels.SCHEDULERS if name != "bfq")
    shown = found.as_json()
    assert (shown["release"], shown["offers"], shown["lacks"]) == ("x", found.offers, found.lacks)
    assert len(found.lacks) > 1
    with pytest.raises(SpecError, match=f"it lacks {', '.join(found.lacks)}"):
        place.Boot.of(found, place.Job("shell"), machine.BootSettings())


def test_lists_of_packages_are_our_own_for_each_place_of_sources(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "_apt", lambda command, cwd=None: ran.append(command) or (
        "Other x http://o\nDebian Debian http://one\nDebian Debian http://two\n"))  # fmt: skip
    home = tmp_path / "schedlab/apt"
    for parts, name in ((None, "usual"), (Path("/p"), "suites")):
        own = kernels._own_lists(parts)
        lists = [f"Dir::State::Lists={home / name}/lists", f"Dir::Cache={home / name}"]
        assert own[1::2] == [*lists, *([f"Dir::Etc::SourceParts={parts}"] if parts else [])]
        assert ran[-1] == ["apt-get", *own, "-q", "update"]
    monkeypatch.setattr(kernels, "_KEYRING", tmp_path)
    assert kernels._later_suites() is None
    monkeypatch.setattr(kernels, "_KEYRING", Path(__file__))
    assert "URIs: http://one\n" in (kernels._later_suites() / "later.sources").read_text()


def test_the_first_of_several_errors_of_apt_is_told_and_our_environment_is_its(monkeypatch):
    asked = []
    monkeypatch.setenv("http_proxy", "http://p")
    monkeypatch.setattr(kernels.subprocess, "run", lambda command, **more: asked.append(more) or
                        SimpleNamespace(returncode=1, stderr="W: x\nE: one\nE: two\n"))  # fmt: skip
    with pytest.raises(HostError, match=r"^apt-get: one$"):
        kernels._apt(["apt-get", "update"])
    assert (asked[0]["env"]["http_proxy"], asked[0]["env"]["LC_ALL"]) == ("http://p", "C")


def test_the_words_of_a_machine_are_its_monitor_its_state_and_all_its_parts(tmp_path, monkeypatch):
    (tmp_path / "root").write_bytes(bytes(4096))
    words = machine.command(tmp_path / "root", tmp_path / "ram", machine.BootSettings(),
                            is_shared=True)  # fmt: skip
    text = " ".join(words)
    for part in (
        f"prlimit --fsize={max(machine.RESULT_BYTES, machine.CONSOLE_BYTES_MAX)} --core=0",
        f"setpriv --pdeathsig KILL {machine.QEMU}", "-M pc,nvdimm=on", "-accel tcg,thread=single",
        "slots=4,maxmem=16G", "-device pvpanic -action panic=pause", "spawn=deny",
        "id=of-root,memdev=root,unarmed=on", "id=of-result,memdev=result,unarmed=off",
    ):  # fmt: skip
        assert part in text
    assert text.count("nvdimm,id=") == 2
    seen = tmp_path / "seen"
    monkeypatch.setattr(machine.Monitor, "load", lambda *_: None)
    kernel = SimpleNamespace(release="x")
    with pytest.raises(HostError):
        machine.run(
            ["sh", "-c", f'echo "$@" > {seen}', "x"], tmp_path, kernel, tmp_path / "s", print
        )
    given = seen.read_text()
    assert " ".join(machine._LOADED) in given and "-mon chardev=monitor" in given


def test_the_first_panic_and_all_of_a_line_in_parts_are_read(tmp_path):
    kernel = SimpleNamespace(release="x")
    (tmp_path / "console").write_text(
        "one\ntwo\nKernel panic - first\nthree\nKernel panic - second\n")  # fmt: skip
    assert machine._cause(1, tmp_path, kernel)[0] == "Linux x panicked: first (before: two)"
    (tmp_path / "console").write_text("one\ntwo\n")
    (tmp_path / "qemu.log").write_text("a\nb\n")
    assert machine._cause(1, tmp_path, kernel)[0].endswith("without a result: b")
    parts = iter(["a", "b", "c\n", "", "d\n", ""])
    process = SimpleNamespace(poll=iter([None, 0]).__next__)
    patience = SimpleNamespace(heard=lambda: None, check=lambda: None)
    assert [*machine._lines(parts.__next__, process, patience)] == ["abc", "d"]


def test_a_monitor_closes_all_its_ends_and_passes_every_argument():
    with monitor.Monitor() as asked:
        asked.theirs.sendall(b'{"event": "A"}\n{"event": "B"}\n{"return": 1}\n')
        assert asked.ask("x", a_b=1, c=2) == 1
        sent = monitor.json.loads(asked.theirs.recv(200))
        assert sent["arguments"] == {"a-b": 1, "c": 2}
        ends = (asked._lines, asked._ours, asked.theirs)
    assert ends[0].closed and [end.fileno() for end in ends[1:]] == [-1, -1]


def test_all_that_was_left_or_is_old_is_removed_from_a_cache(tmp_path, monkeypatch):
    for name in (".a", ".b", "kept"):
        (tmp_path / name).mkdir()
    with cache.making(tmp_path):
        assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    left = [tmp_path / f"left{n}" for n in range(3)]
    for each in left:
        each.mkdir()
        (each / "initrd").touch()
    with cache.held(left[1]):
        cache.remove_abandoned([tmp_path / "absent", *left])
    assert [each.exists() for each in left] == [False, True, False]
    paths = [tmp_path / f"{n}.img" for n in range(6)]
    for age, path in enumerate(paths):
        path.touch()
        cache.os.utime(path, (age, age))
    cache.keep_newest(paths[5])
    assert sorted(tmp_path.glob("*.img")) == paths[3:]


def test_the_state_of_a_machine_is_of_all_that_decides_its_boot(tmp_path, monkeypatch):
    """Of facts that differ in one, all but those of the session make it another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(place.Boot, "_make_state", lambda boot, path: path.mkdir())
    facts = {"kernel": "1", "root_sha256": "2", "job_sha256": "3", "seed": 4, "digest": "5"}

    def state(**changed):
        return place.Boot(None, None, b"", tmp_path, b"", facts | changed)._state()

    assert {key: state(**{key: "x"}) == state() for key in facts} == {
        "kernel": False, "root_sha256": False, "job_sha256": True, "seed": True, "digest": True
    }  # fmt: skip
    links = initramfs.archive([("a", 0o040755, b""), ("b", 0o100644, b""), ("c", 0o040755, b"")])
    at = [links.index(name + b"\0") - 110 for name in (b"a", b"b", b"c")]
    assert [int(links[begin + 38 : begin + 46], 16) for begin in at] == [2, 1, 2]
