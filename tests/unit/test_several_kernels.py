"""Of several kernels, files, boots or tables each counts: rooms that read the file of an
experiment, and measure in virtual time."""

import contextlib
import hashlib
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments import experiment

from schedlab.app.measure import files, in_guest, kernels, virtual, virtual_boots
from schedlab.design.boots import BootKind, plan_boots
from schedlab.errors import SpecError
from schedlab.host.emulated.emulated import Emulation
from schedlab.host.emulated.emulated_calibration import predict
from schedlab.nouns import Candidate, Stopping, Target, Workload


def test_a_file_may_mix_texts_tables_and_requirements(tmp_path):
    (tmp_path / "x.toml").write_text(
        'seed = 1\nkind = "io"\nrequires = ["v iops > 7", "w iops > 5"]\n'
        'candidates = ["none", "tuned=bfq slice_idle=0", "kyber"]\n'
        '[[workloads]]\nlabel = "v"\nkind = "random-reads"\n'
        '[[workloads]]\nlabel = "w"\nkind = "random-reads"\n'
    )
    asked = files.read_experiment(tmp_path / "x.toml")
    assert [c.label for c in asked.candidates] == ["none", "tuned", "kyber"]
    assert [(r.workload, r.limit) for r in asked.requires] == [("v", 7.0), ("w", 5.0)]
    tables = files._candidates(
        [{"label": "a", "settings": {"sysctl": {"vm": {"x": 1, "y": 2}}}}, "none,bfq",
         {"label": "b", "settings": {"scheduler": "none", "wbt": {"z": 3}}}, 7], False,
    )  # fmt: skip
    assert [of if isinstance(of, int) else of["label"] for of in tables] == [
        "a",
        "none",
        "bfq",
        "b",
        7,
    ]
    assert tables[0]["settings"] == {"sysctl.vm.x": 1, "sysctl.vm.y": 2}
    assert tables[3]["settings"] == {"scheduler": "none", "wbt.z": 3}


class Kernels(dict):
    """Kernels by name."""

    def find(self, name):
        return self[name]


def kernel(release, schedulers=("none", "bfq"), quantum=1.0):
    return SimpleNamespace(
        release=release, schedulers=schedulers, options=("x",), offers=schedulers, lacks=(),
        quantum_ms=lambda ms: ms * quantum,
    )  # fmt: skip


@pytest.fixture
def here(monkeypatch):
    found = Kernels({
        "6.1": kernel("6.1.0", ("none", "kyber", "bfq", "x")), "6.6": kernel("6.6.0", quantum=2),
        "6.12": kernel("6.12.0", ("bfq", "y", "kyber", "none")), "/b/6.1.0": kernel("6.1.0"),
    })  # fmt: skip
    monkeypatch.setattr(virtual.kernels, "find", found.find)
    return found


def test_all_kernels_that_are_named_are_meant_and_offer_what_all_of_them_do(here):
    assert [*virtual.kernels_named("6.1, 6.6,6.12")] == ["6.1", "6.6", "6.12"]
    for text in ("6.1,6.6,6.1", "6.6,6.1,/b/6.1.0", "6.1,6.6,/b/6.1.0"):
        with pytest.raises(SpecError, match=r"6\.1\.0 is named twice"):
            virtual.kernels_named(text)
    usual = {"candidates": (), "schedulers": None, "model": "m"}
    for text, offered in (("6.1,6.12", "none,kyber,bfq"), ("6.1,6.6", "none,bfq")):
        assert virtual.with_usual({**usual, "kernel": text})["schedulers"] == offered
    assert virtual.effective_slices("rr", (1.0, 5.0), "6.1,6.12") == {1.0: 1.0, 5.0: 5.0}
    with pytest.raises(SpecError, match="another one under each of 6"):
        virtual.effective_slices("rr", (1.0,), "6.1,6.12,6.6")
    lines = kernels.rows([here["6.1"], here["6.6"]])
    assert [line.split() for line in lines] == [
        ["6.1.0", "none,", "kyber,", "bfq,", "x"], ["6.6.0", "none,", "bfq"]
    ]  # fmt: skip
    (lacking,) = kernels.rows([SimpleNamespace(release="7", options=("a",), offers=("p", "q"),
                                               lacks=("u", "v"))])  # fmt: skip
    assert lacking.endswith(" p, q; cannot be booted: it lacks u, v")


def test_all_kernels_are_checked_and_all_notes_told(here, monkeypatch, tmp_path):
    checked, booted, lines = [], [], []
    monkeypatch.setattr(virtual, "check", lambda asked, kernel: checked.append(kernel.release))
    monkeypatch.setattr(virtual_boots, "planned", lambda *_: "plan")
    monkeypatch.setattr(virtual_boots, "measure_boots", lambda *given: booted.append(given[:2]))
    asked = experiment(notes=("n1", "n2"))
    virtual.measure(asked, "6.1,6.12", tmp_path / "out", virtual.Observer(report=lines.append))
    assert checked == ["6.1.0", "6.12.0"] and lines == ["note: n1", "note: n2"]
    assert [[*named] for _, named in booted] == [["6.1", "6.12"]]


def test_every_file_that_an_experiment_names_is_brought(tmp_path, monkeypatch):
    for name in ("a", "b", "c", "d", "e", "f", "prog1", "prog2", "ext1", "ext2"):
        (tmp_path / name).write_text(name)
    for name in ("prog1", "prog2"):
        (tmp_path / name).chmod(0o755)
    path = {each.name: str(each) for each in tmp_path.iterdir()}
    works = (Workload("v", "x", "iops", {"p": path["a"], "q": path["b"], "n": 3}),
             Workload("w", "x", "iops", {"argv": [path["prog1"], path["c"], path["d"]]}),
             Workload("x", "x", "iops", {"argv": [path["prog2"], path["e"]]}))  # fmt: skip
    arms = tuple(Candidate(name, {"ext": path[name]}) for name in ("ext1", "ext2"))
    monkeypatch.setattr(virtual.image, "files", lambda: {Path(path["d"]): Path("/usr/bin/d")})
    asked = []
    monkeypatch.setattr(virtual.image, "libraries_of", lambda programs: asked.extend(programs) or [
        "/lib/one", "/lib/two"])  # fmt: skip
    found = virtual._files_of(experiment(workloads=works, candidates=arms, baseline="ext1"))
    brought = ("a", "b", "c", "e", "ext1", "ext2", "prog1", "prog2")
    assert found == sorted([*(Path(path[each]) for each in brought), Path("/lib/one"),
                            Path("/lib/two")])  # fmt: skip
    assert sorted(asked) == [path["prog1"], path["prog2"]]
    jobs = []
    monkeypatch.setattr(virtual, "_files_of", lambda asked: [tmp_path / "a", tmp_path / "b"])
    monkeypatch.setattr(virtual.Boot, "of", lambda kernel, job, settings: jobs.append(job))
    virtual.booted(experiment(), None)
    assert {name: data for name, data in jobs[0].files.items() if name.startswith("files")} == {
        f"files{path['a']}": b"a", f"files{path['b']}": b"b"
    }  # fmt: skip
    monkeypatch.setattr(virtual, "_FILES_BYTES_MAX", 1)
    with pytest.raises(SpecError, match="have more than"):
        virtual.booted(experiment(), None)


def test_every_fact_in_which_two_machines_differ_is_told():
    stored, now = ({"kernel": k, "image": i, "qemu": "x", "digest": k} for k, i in ("ab", "cd"))
    assert [*virtual._differences(stored, now)] == ["kernel is c, was a", "image is d, was b"]


def test_every_boot_of_a_plan_is_made_and_joined(monkeypatch, tmp_path):
    kinds = [BootKind("old", "6.1"), BootKind("new", "6.12")]
    asked = experiment(kind="cpu", target=Target("none"), stopping=Stopping(blocks=2))
    plan = plan_boots(asked, kinds, 2, "")
    named = {"old": SimpleNamespace(release="6.1.0"), "new": SimpleNamespace(release="6.12.0")}
    lines, seeds = [], []

    class Boot:
        def run(self, observer, path):
            pass

    monkeypatch.setattr(virtual_boots, "booted", lambda asked, kernel: seeds.append(
        (asked.seed, kernel.release)) or Boot())  # fmt: skip
    facts = iter([{"kernel": f"k{n % 2}", "digest": f"d{n}", "same": 1, "other": n, "last": n == 3}
                  for n in range(4)])  # fmt: skip
    monkeypatch.setattr(virtual_boots.Folder, "open", lambda path: SimpleNamespace(
        host={"virtual": next(facts)}))  # fmt: skip
    joined = []
    monkeypatch.setattr(virtual_boots, "join", lambda plan, folders, out, more: joined.append(
        (len(folders), more["virtual"])) or out.mkdir())  # fmt: skip
    monkeypatch.setattr("schedlab.result.Result", lambda folder: folder)
    virtual_boots.measure_boots(plan, named, tmp_path / "out", virtual.Observer(
        report=lines.append))  # fmt: skip
    expected = [(plan.experiment_of(n).seed, named[plan.kind_of(n).label].release)
                for n in range(4)]  # fmt: skip
    assert seeds == expected
    assert lines == [f"boot {n + 1} of 4: Linux {release}" for n, (_, release) in enumerate(seeds)]
    digest = hashlib.sha256(b"d0d1d2d3").hexdigest()
    assert joined == [(4, {"same": 1, "digest": digest, "kernels": ["k0", "k1"]})]


def test_in_a_guest_all_is_mounted_brought_and_told(monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(in_guest, "tell", lambda **of: told.append(of))
    monkeypatch.setattr(in_guest.subprocess, "run", lambda *_, **__: SimpleNamespace(
        stdout="a\nb\n", stderr="c\n"))  # fmt: skip
    in_guest._do("doctor --all")
    assert told == [{"report": each} for each in "abc"]
    place = tmp_path / "job" / "files" / str(tmp_path).lstrip("/")
    for name in ("x", "sub/y", "sub/z"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    monkeypatch.setattr(in_guest, "JOB", tmp_path / "job")
    in_guest._bring_files()
    assert [(tmp_path / name).read_text() for name in ("x", "sub/y", "sub/z")] == [
        "x", "sub/y", "sub/z"
    ]  # fmt: skip
    told.clear()
    with contextlib.suppress(KeyError), in_guest._errors_told():
        raise KeyError("k")
    assert told[0]["error"]["message"].startswith("in the machine: ")


def test_every_part_of_a_file_is_read(tmp_path):
    text = (
        'seed = 1\nkind = "io"\ncandidates = ["none,bfq", "kyber"]\n'
        'target = { kind = "scratch", size_bytes = "1G" }\n'
        'stopping = { blocks = 3, budget_s = "2min" }\n'
        '[[requires]]\nworkload = "v"\nmetric = "iops"\nlimit = 3.0\nbelow = false\n'
        '[[requires]]\nworkload = "w"\nmetric = "iops"\nlimit = 4.0\nbelow = false\n'
    ) + "".join(
        f'[[workloads]]\nlabel = "{label}"\nkind = "random-reads"\n'
        'parameters = { seconds = "3s", span_bytes = "4k" }\nchosen = { span_bytes = "8k" }\n'
        for label in "vw"
    )
    for wrong in ("", "span_bytes = 1", "seconds = 1"):
        (tmp_path / "x.toml").write_text(f"{text}{wrong}\n")
        if wrong:
            with pytest.raises(SpecError, match=f"'{wrong.split()[0]}' is a parameter of"):
                files.read_experiment(tmp_path / "x.toml")
            continue
        try:
            asked = files.read_experiment(tmp_path / "x.toml")
        except SpecError as error:
            pytest.fail(f"{error}: {error.hint}")
        assert [c.label for c in asked.candidates] == ["none", "bfq", "kyber"]
        assert [(r.workload, r.limit) for r in asked.requires] == [("v", 3.0), ("w", 4.0)]
        assert asked.target.size_bytes == 1 << 30 and asked.stopping.budget_s == 120.0
        for work in asked.workloads:
            assert work.parameters == {"seconds": 3.0, "span_bytes": 4096}
            assert work.chosen == {"span_bytes": 8192}
    for old in ("fixed", "parameters"):
        with pytest.raises(SpecError, match=f"'{old}' is a key of the sweeps"):
            files.experiment_of({old: {}}, "x")


def test_either_target_that_is_typed_is_kept_beside_a_kernel(here):
    for name in ("scratch_bytes", "device", "directory", "model"):
        typed = dict.fromkeys(("scratch_bytes", "device", "directory", "model")) | {
            "kernel": "6.1", name: "mine"}  # fmt: skip
        assert virtual.with_usual(typed) == typed
    typed = dict.fromkeys(("scratch_bytes", "device", "directory", "model")) | {"kernel": "6.1"}
    assert virtual.with_usual(typed)["model"] == virtual.USUAL_MODEL


def test_what_went_wrong_in_a_guest_is_told_with_both_lines(monkeypatch):
    told, ran = [], []
    monkeypatch.setattr(in_guest, "tell", lambda **of: told.append(of["error"]["message"]))
    with in_guest._errors_told():
        raise ValueError("first\nsecond")
    assert told == ["in the machine: ValueError: first\nsecond"] or "second" in told[0]
    monkeypatch.setattr(in_guest.subprocess, "run", lambda command, **_: ran.extend(command) or (
        SimpleNamespace(stdout="", stderr="")))  # fmt: skip
    in_guest._do("doctor --all --more")
    assert ran[-3:] == ["doctor", "--all", "--more"]


def test_the_dilation_that_is_asked_for_serves_all_tags_of_a_device():
    """Slow enough for 32 requests at a time, an NVMe SSD of 128 tags was refused in the guest."""
    slow = Emulation(
        "nvme", None, dilate=math.ceil(virtual.needed_dilation(Emulation("nvme", None)))
    )
    virtual.check_speed(slow, "")
    rates = [predict(slow, depth)["iops"] / slow.dilate for depth in (virtual.TAGS, 128)]
    assert virtual.TAGS < slow.describe()["tags"] == 128
    assert rates[0] < virtual.MOST_PER_S and rates[1] < virtual.EMULATED_PER_S
