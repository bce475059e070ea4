"""Of several packages, suites, archives, files, modules or programs each counts: kernels that are
fetched, and the image and the archive that a guest boots."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_guest import bz_image, module

from schedlab.errors import HostError
from schedlab.guest import image, initramfs, kernels

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
    packed = initramfs.initramfs(kernels.find(str(bz_image(tmp_path / "boot/vmlinuz"))))
    order = b"one\ntwo\nthree\nfour\nloop\nbfq\nnull_blk nr_devices=0\n"
    names = [line.split()[0].decode() for line in order.splitlines()]
    assert order in packed and b"unused" not in packed
    files = (*(f"modules/{name}.ko" for name in names), "bin/busybox", "init")
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
    asked = []

    def ldd(command, **_):
        asked.extend(command[1:])
        return SimpleNamespace(stdout="".join(
            f"\tx => /usr/lib/{Path(name).name}-{n}.so (0x1)\n" for name in command[1:]
            for n in range(2)))  # fmt: skip

    monkeypatch.setattr(image.subprocess, "run", ldd)
    programs = [f"/bin/p{number}" for number in range(250)]
    found = image.libraries_of(programs)
    assert asked == programs
    assert found == {f"/usr/lib/p{at}-{n}.so" for at in range(250) for n in range(2)}
    elf = [tmp_path / name for name in ("a", "b", "c/d", "c/e")]
    for file in elf:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"\x7fELF")
    (tmp_path / "c/text").write_text("x")
    sources = [(tmp_path / name, Path("/", name)) for name in ("a", "b", "c")]
    monkeypatch.setattr(image, "_sources", lambda: sources)
    assert image._libraries(tmp_path) == {
        f"/usr/lib/{name}-{n}.so" for name in "abde" for n in range(2)
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
    assert sorted(indexed) == [str(file.parent) for file in libraries]
    assert all((tree / "etc" / name).read_text() == text for name, text in image._WRITTEN.items())
    assert {path.lstat().st_mtime for path in (tree, *tree.rglob("*"))} == {1.0}

    def refused(place, size_bytes, *_):
        raise HostError(str(size_bytes), "")

    monkeypatch.setattr(image, "require_space", refused)
    with pytest.raises(HostError, match=f"^{image._SPACE * (1 + 2 + 3 + 4)}$"):
        image._make(tmp_path / "root.img")
