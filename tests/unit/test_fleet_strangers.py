"""Measured machines are strangers: what they send is data, bounded, and never evaluated."""

import gzip
import io
import json
import sys
import tarfile

import pytest
from click.testing import CliRunner
from test_fleet import Host, fleet_of
from test_fleet_command import archive_of, event
from test_merge import measured

from schedlab import report
from schedlab.app.fleet import fleet
from schedlab.app.fleet.merge import merge
from schedlab.cli import cli
from schedlab.design.candidates import parse_candidates
from schedlab.errors import SchedlabError, SpecError
from schedlab.nouns import Candidate, Target
from schedlab.result import Result

FAKE = '#!/bin/sh\nprintf "%s\\n" "$@" >"$0.words"\nprintf "\\033]0;owned\\007%s\\r\\n" x\n'


@pytest.fixture
def machines(tmp_path):
    """(an inventory of hosts that are this machine, and whose schedlab writes down its words)"""

    def of(names, **variables):
        lines = ["[all:vars]", "ansible_connection=local", "schedlab_poll_seconds=1",
                 f"ansible_python_interpreter={sys.executable}", "[all]"]  # fmt: skip
        for name in names:
            command = tmp_path / f"schedlab-{name}"
            command.write_text(FAKE)
            command.chmod(0o755)
            own = {"schedlab_command": command, "schedlab_place": tmp_path / f"place-{name}",
                   **variables.get(name, {})}  # fmt: skip
            lines.append(" ".join([name, *(f"{key}={value}" for key, value in own.items())]))
        (tmp_path / "inventory.ini").write_text("\n".join(lines) + "\n")
        return fleet.Machines(tmp_path / "inventory.ini")

    pytest.importorskip("ansible_runner")
    return of


def template(tmp_path, number=0):
    """Text that Ansible would evaluate; then a file `owned` is there."""
    return "{{ lookup('pipe', 'touch %s') }}" % (tmp_path / f"owned{number}")


def silent(host, text):
    pass


def test_ansible_evaluates_nothing_that_a_machine_sent(tmp_path, machines):
    text = template(tmp_path)
    asked = machines("ab")
    chosen = {"a": {"setting": f"bfq:x={text}", "device": text}, "b": {text: text, "device": ""}}
    variables = {"schedlab_apply_options": [text], "schedlab_settings": {**chosen, text: text}}
    states = fleet.play("apply", fleet.Machines(asked.inventory, "", variables), silent)
    assert not list(tmp_path.glob("owned*"))
    words = (tmp_path / "schedlab-a.words").read_text().splitlines()
    assert words == ["apply", text, "--", f"bfq:x={text}", text]
    assert states["b"].failed


@pytest.mark.sampled(3)
def test_what_a_host_installs_has_the_digests_of_the_lock(tmp_path):
    """Also from a directory of wheels. Its pip only writes down its words."""
    pytest.importorskip("ansible_runner")
    (tmp_path / "schedlab.whl").touch()
    (tmp_path / "house").mkdir()
    hosts = {"a": "", "b": f"schedlab_wheelhouse={tmp_path}/house"}
    lines = []
    for name, more in hosts.items():
        pip = tmp_path / name / "venv/bin/pip"
        pip.parent.mkdir(parents=True)
        pip.write_text('#!/bin/sh\necho "$@" >>"$0.words"\n')
        pip.chmod(0o755)
        lines.append(f"{name} ansible_connection=local schedlab_place={tmp_path}/{name} {more} "
                     f"ansible_python_interpreter={sys.executable}\n")  # fmt: skip
    (tmp_path / "i.ini").write_text("".join(lines))
    variables = {"schedlab_wheel": str(tmp_path / "schedlab.whl"), "schedlab_run": "x",
                 "schedlab_file": "/nothing", "schedlab_home_dir": str(tmp_path)}  # fmt: skip
    fleet.play("run", fleet.Machines(tmp_path / "i.ini", "", variables), silent)
    for name, more in hosts.items():
        place = tmp_path / name
        lock = place / "requirements.lock"
        assert "--hash=sha256:" in lock.read_text()
        house = f"--no-index --find-links {place}/wheels " if more else ""
        words = (place / "venv/bin/pip.words").read_text().splitlines()
        assert [line.partition("all: ")[2] for line in words] == [
            f"{house}--require-hashes --requirement {lock}",
            f"{house}--force-reinstall --no-deps {place}/wheels/schedlab.whl",
        ]


FILES = {
    "comment": "# TEMPLATE\n",
    "value": 'title = "TEMPLATE"\n',
    "statement": "{% set x = lookup('pipe', 'touch OWNED') %}\n",
    "default": "# {{ schedlab_nothing | default(lookup('pipe', 'touch OWNED')) | to_json }}\n",
    "tag": "# {{ schedlab_nothing | default(!!python/object/apply:os.system ['touch OWNED']) }}\n",
    "other": "# {{ ansible_connection }}{{ hostvars }}\n",
    "filter": "# {{ schedlab_device | map('extract') }}\n",
    "variable": 'a = "{{ schedlab_device }}"\n'
                "b = {{ schedlab_list | default(['x', 2]) | to_json }}\n"
                "d = {{ schedlab_list | default([schedlab_device, schedlab_dev,'x']) | to_json }}\n"
                "c = {{schedlab_size|to_json}} # {{ schedlab_list | default('/mnt') }} }} #}\n",
}  # fmt: skip
RENDERED = 'a = "loop7"\nb = ["x", 2]\nd = ["loop7", "y", "x"]\nc = "1G" # /mnt }} #}\n'


@pytest.mark.sampled(3)
def test_no_template_language_reads_an_experiment(tmp_path, machines):
    own = {}
    for number, (name, text) in enumerate(FILES.items()):
        file, evil = tmp_path / f"{name}.toml", template(tmp_path, number)
        owned = str(tmp_path / f"owned{number}")
        file.write_text(text.replace("TEMPLATE", evil).replace("OWNED", owned))
        own[name] = {"schedlab_file": file, "schedlab_device": "loop7",
                     "schedlab_dev": "y", "schedlab_size": "1G"}  # fmt: skip
    variables = {"schedlab_run": "x", "schedlab_home_dir": str(tmp_path)}
    asked = machines(FILES, **own)
    states = fleet.play("run", fleet.Machines(asked.inventory, "", variables), silent)
    assert not list(tmp_path.glob("owned*")), states
    for name in FILES.keys() - {"variable", "tag", "default"}:
        assert f"{name}.toml: braces that name no variable are refused" in states[name].text
        assert not (tmp_path / f"place-{name}" / "x" / "experiment.toml").exists()
    written = tmp_path / "place-variable" / "x" / "experiment.toml"
    assert written.read_text() == RENDERED
    assert all(state.failed for state in states.values())


LIES = {
    "h0": {"device": "{{ lookup('pipe', 'id') }}"},
    "h1": {"device": "--persist"},
    "h2": {"device": "x y"},
    "h3": {"device": "s\u202eda"},
    "h4": {"device": "../sda"},
    "h5": {"device": "a" * 1000},
    "h6": {"device": "sda;reboot"},
    "h7": {"device": "$(id)"},
    "h8": {"device": "/dev/sda"},
}


def lied_about(answer):
    """The facts of hosts in a merged folder as ten liars would have them."""
    facts = json.loads((answer / "host.json").read_text())
    for host, lie in LIES.items():
        facts["hosts"][host]["measured_device"] = {"name": lie["device"]}
    facts["hosts"]["h9"]["measured_device"] = ["sda"]
    (answer / "host.json").write_text(json.dumps(facts))


def test_a_device_that_no_kernel_has_is_left_alone(tmp_path):
    target = Target("device", path="/dev/sda")
    paths = fleet_of(tmp_path, [2.0, 2.02, 1.98, 2.01, 2.0] * 3, "A" * 15, target=target)
    merge(paths, tmp_path / "all", hosts=True)
    lied_about(tmp_path / "all")
    chosen, left = fleet.settings(tmp_path / "all")
    assert set(left) == set(LIES) and all("is no name of a device" in why for why in left.values())
    assert chosen["h9"]["device"] == "" and chosen["h14"]["device"] == "sda"


@pytest.mark.parametrize(
    "settings",
    [
        {"scheduler": "bfq", "sysctl.kernel.core_pattern": "|/bin/sh"},
        {"scheduler": "bfq", "thp": "always"},
        {"scheduler": "bfq", "run": "id", "undo": ":"},
        {"scheduler": "bfq", "low_latency": "{{ x }}"},
        {"scheduler": "bfq", "low_latency": "0,slice_idle=0"},
        {"scheduler": "bfq", "low_latency": "0 --persist"},
        {"scheduler": "--persist"},
        {"scheduler": "none,bfq"},
        {"scheduler": "{{ x }}"},
        {"scheduler": "bfq:low_latency=0"},
    ],
)
def test_a_label_that_sets_more_than_a_device_is_left_alone(tmp_path, settings):
    both = (*parse_candidates("none"), Candidate("bfq", settings))
    paths = fleet_of(tmp_path, [2.0, 2.02, 1.98, 2.01, 2.0], candidates=both)
    merge(paths, tmp_path / "all", hosts=True)
    chosen, left = fleet.settings(tmp_path / "all")
    assert not chosen and left["h0"] == "bfq is no setting of a device alone"


@pytest.mark.parametrize("lang", ["en", "ko", "ru"])
def test_every_screen_names_what_a_label_sets_beyond_the_device(tmp_path, lang):
    more = {"scheduler": "bfq", "sysctl.kernel.core_pattern": "|/x", "slice_idle": 0, "run": "id"}
    both = (*parse_candidates("none"), Candidate("bfq", more))
    target = Target("device", path="/dev/sda")
    folder = measured(tmp_path / "r", "s", source=Host(2.0), candidates=both, target=target)
    result = Result.load(folder)
    named = ("sysctl.kernel.core_pattern=|/x", "run=id")
    result.write_html(tmp_path / "page.html", lang)
    screens = [result.headline(lang), " ".join(result.text(lang=lang).split()),
               report.markdown(result.record, result.answer, lang),
               (tmp_path / "page.html").read_text()]  # fmt: skip
    for screen in screens:
        assert all(name in screen.replace("\\", "") for name in named), screen[:2000]
    assert "slice_idle" not in result.headline(lang)


def test_the_facts_of_a_result_beside_it_end_no_analysis(tmp_path):
    folder, beside = fleet_of(tmp_path, [2.0, 2.02])
    for kernel in ('"x"', "[]", "null", "{}"):
        (beside / "host.json").write_text(f'{{"kernel": {kernel}, "cpu": 3}}')
        assert Result.load(folder).text()
        assert Result.load(beside).text()


def test_a_label_has_one_definition_or_both_hosts_are_named(tmp_path):
    paths = fleet_of(tmp_path, [2.0] * 4)
    lied = (*parse_candidates("none"), Candidate("bfq", {"scheduler": "none"}))
    liar = measured(tmp_path / "liar", "s9", source=Host(2.0), candidates=lied)
    for number in range(len(paths) + 1):
        folders = [*paths[:number], liar, *paths[number:]]
        with pytest.raises(SpecError, match="bfq is scheduler=") as caught:
            merge(folders, tmp_path / "all", hosts=True)
        assert "/liar" in str(caught.value) and "/h" in str(caught.value)
        assert not (tmp_path / "all").exists()


def test_what_a_machine_prints_neither_ends_the_work_nor_reaches_the_terminal(tmp_path, machines):
    for output in ("runs", "runs x", "runs 1", "died", "died 1 x", "runs \x1b 3", "died 1"):
        hosts = {}
        fleet.note(hosts, event("retry", "a", stdout=output, cmd=[]), silent)
        fleet.note(hosts, event("on_failed", "a", stdout=output, cmd=[]), silent)
        assert hosts["a"].failed
    fleet.note(hosts, event("on_ok", "a", stdout="x" * (9 << 20), cmd=[]), silent)
    assert len(hosts["a"].output) == fleet.OUTPUT_MAX
    asked = machines("a")
    done = CliRunner().invoke(cli, ["fleet", "status", "-i", str(asked.inventory)])
    assert "owned" in done.output and "\x1b" not in done.output and "\x07" not in done.output


def member(name, size=0, **about):
    made = tarfile.TarInfo(name)
    made.size = size
    for key, value in about.items():
        setattr(made, key, value)
    return made


class Zeros(io.RawIOBase):
    def read(self, size=-1):
        return bytes(size)


def bombs():
    yield "content", [member("result/x", 3 << 20)]
    yield "two files", [member("result/x", 1 << 19), member("result/y", (1 << 19) + 1)]
    yield "headers", [member("result/x", pax_headers={"comment": "x" * (3 << 20)})]
    yield "number", [member(f"result/{n}") for n in range(12)]
    yield "depth", [member("result/" + "d/" * 50, type=tarfile.DIRTYPE)]
    yield "link", [member("result/x", type=tarfile.SYMTYPE, linkname="/etc/passwd")]
    yield "hard link", [member("result/x", type=tarfile.LNKTYPE, linkname="result/y")]
    yield "device", [member("result/x", type=tarfile.BLKTYPE, devmajor=7)]
    yield "pipe", [member("result/x", type=tarfile.FIFOTYPE)]
    yield "sparse", [member("result/x", 0, pax_headers={"GNU.sparse.major": "1",
                     "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)})]  # fmt: skip
    yield "outside", [member("../x", 5)]
    yield "absolute", [member("/x", 5)]


@pytest.mark.parametrize(("name", "members"), list(bombs()), ids=lambda of: str(of)[:9])
def test_an_archive_takes_no_more_than_its_limit(tmp_path, monkeypatch, name, members):
    monkeypatch.setattr(fleet, "UNPACKED_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(fleet, "MEMBERS_MAX", 10)
    monkeypatch.setattr(fleet, "DATA_FILTER", {})  # as with Python 3.11.2
    (tmp_path / "in").mkdir()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as packed:
        for each in members:
            packed.addfile(each, Zeros())
    with pytest.raises((SchedlabError, OSError)):
        fleet.unpacked(tmp_path / "a.tar.gz", tmp_path / "in" / "a")
    assert not list((tmp_path / "in").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "in"]


def test_an_archive_of_the_largest_size_is_unpacked(tmp_path, monkeypatch):
    (folder,) = fleet_of(tmp_path, [2.0])
    (tmp_path / "in").mkdir()
    archive = archive_of(folder, tmp_path / "a.tar.gz")
    content = len(gzip.decompress(archive.read_bytes()))
    with tarfile.open(archive) as packed:
        monkeypatch.setattr(fleet, "MEMBERS_MAX", len(packed.getmembers()))
    monkeypatch.setattr(fleet, "UNPACKED_MAX_BYTES", content)
    assert fleet.unpacked(archive, tmp_path / "in" / "a") == tmp_path / "in" / "a"
    monkeypatch.setattr(fleet, "UNPACKED_MAX_BYTES", content - 10240)
    with pytest.raises(SpecError, match="unpacks to more than"):
        fleet.unpacked(archive, tmp_path / "in" / "b")
