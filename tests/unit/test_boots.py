"""Boots as blocks: the plan, what a boot is taken for, and the boot loaders' own programs."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from schedlab.app.apply.recovering import recover_all
from schedlab.app.fleet import boots as plans
from schedlab.app.measure import measure
from schedlab.app.measure.files import read_experiment
from schedlab.cli import cli
from schedlab.design.boots import BootKind, is_other, parse_kind, plan_boots
from schedlab.errors import HostError, SpecError
from schedlab.host import bootloader, doctor
from schedlab.host.emulated import keeper
from schedlab.host.safety import boots_held, journal
from schedlab.kinds import Outcome
from schedlab.nouns import to_json
from schedlab.nouns.checked_line import encode
from schedlab.run.admitted import Permission
from schedlab.store.folder import Folder

# In the order of this seed the default kernel comes first.
FILE = """
seed = 3
kind = "cpu"
candidates = ["other"]
stopping = { blocks = 2 }
[[workloads]]
label = "w"
kind = "calculation"
metric = "calculations"
"""
USUAL = "root=/dev/vda ro quiet"
OLD, NEW, ONE = "6.1.0-56-amd64", "6.12.117+deb12-amd64", "6.12.117+deb12-amd64 maxcpus=1"
SPEED = {OLD: 100.0, NEW: 110.0, ONE: 50.0}


class Machine:
    """A machine of which only the kernel is played: it boots what the user's command was told."""

    def __init__(self, directory, monkeypatch):
        self.directory, self.boots, self.kill_at, self.patch = directory, 0, None, monkeypatch
        monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(directory / "state"))
        monkeypatch.setattr(measure, "opened", self.opened)
        (directory / "x.toml").write_text(FILE)
        self.boot(NEW)

    def boot(self, kernel=None):
        """Reboot: into `kernel`, else what was chosen, once, else the default."""
        chosen = self.directory / "next"
        wanted = chosen.read_text().strip() if chosen.exists() else ""
        chosen.unlink(missing_ok=True)
        release, _, words = (kernel or wanted or NEW).partition(" ")
        self.boots += 1
        self.kernel = f"{release} {words}".strip()
        line = f"BOOT_IMAGE=/vmlinuz-{release} {USUAL} {words}".strip()
        self.patch.setattr(plans, "running", lambda: (release, line))
        self.patch.setattr(journal, "boot_id", lambda: f"boot{self.boots:04d}")
        self.patch.setattr(measure, "session_id", lambda: f"boot{self.boots:04d}-files")

    @contextmanager
    def opened(self, admitted, observer, *_):
        yield self

    def measure(self, cell, workload, candidate):
        if self.kill_at == self.boots and cell.block == 1:
            raise KeyboardInterrupt
        value = SPEED[self.kernel] * (1 + 0.01 * (self.boots % 3) + 0.001 * cell.block)
        return Outcome({"calculations": value})

    def init(self, *words, rounds=3):
        command = 'echo "$SCHEDLAB_KERNEL $SCHEDLAB_CMDLINE" > next'
        return self.run(
            "init", "x.toml", "--kernels", f"{OLD},{NEW}", "--candidate",
            f"one-cpu={NEW} cmdline=maxcpus=1", "--boots", str(rounds), "--with", command,
            "--out", "plan", *words,
        )  # fmt: skip

    def run(self, *words):
        self.patch.chdir(self.directory)
        return CliRunner().invoke(cli, ["boots", *words], catch_exceptions=True)

    def opened_plan(self):
        return plans.Boots(self.directory / "plan")

    def events(self):
        return [event["event"] for event in self.opened_plan().events]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def test_every_kind_is_booted_once_a_round_in_a_balanced_order(tmp_path):
    (tmp_path / "x.toml").write_text(FILE)
    kinds = [BootKind("a", "1"), BootKind("b", "2"), BootKind("c", "3")]
    plan = plan_boots(read_experiment(tmp_path / "x.toml"), kinds, 6, "")
    order = [plan.kind_of(number).label for number in range(plan.boots)]
    rounds = [order[n : n + 3] for n in range(0, 18, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert sorted(map(tuple, rounds)) == sorted(set(map(tuple, rounds)))  # all six orders
    seeds = [plan.experiment_of(number).seed for number in range(plan.boots)]
    assert len(set(seeds)) == 6 and all(len(set(seeds[n : n + 3])) == 1 for n in range(0, 18, 3))


def test_a_plan_ends_complete_over_a_kill_and_a_foreign_boot(machine):
    assert machine.init().exit_code == 0
    machine.run("next")
    assert machine.events() == ["init", "chosen"]  # it was not booted for the plan
    for _ in range(30):
        machine.boot(f"{NEW} single" if machine.boots == 3 else None)
        if machine.boots == 6:
            machine.kill_at = 6
        ended = machine.run("next")
        if machine.boots == 7:  # the default, after the kill: as often as one likes
            ended = machine.run("next")
        if "Report" in ended.output:
            break
    events = machine.events()
    plan = machine.opened_plan()
    assert plan.due is None and events.count("done") == 9
    assert events.count("foreign") == events.count("killed") == 1
    assert machine.boots == 1 + 9 + 3  # after the kill into the default first
    result = plans.Result(Folder.open(machine.directory / "plan" / "result"))
    record, answer = result.record, result.answer
    assert record.notices == () and len({(r.block, r.position) for r in record.runs}) == 9 * 2
    assert {c.label for c in record.experiment.candidates} == {OLD, NEW, "one-cpu"}
    for run in record.runs:
        kind = run.candidate if run.candidate != "one-cpu" else ONE
        assert run.metrics["calculations"] == pytest.approx(SPEED[kind], rel=0.03)
    assert (answer.used, answer.units, answer.base) == ("sessions", 3, OLD)
    assert answer.level == 0.7  # an announced end
    assert plans.held() is None and (machine.directory / "next").read_text().strip() == ""


def test_a_killed_process_goes_on_in_the_same_boot(machine):
    machine.init()
    machine.run("next")
    machine.boot()
    machine.kill_at = machine.boots
    assert machine.run("next").exception.hint.startswith("schedlab boots next")
    machine.kill_at = None
    machine.run("next")
    assert machine.events() == ["init", "chosen", "measuring", "measuring", "done", "chosen"]
    (folder,) = (machine.directory / "plan" / "boots").glob("*/001")
    assert len(Folder.open(folder).runs()) == 2


def test_three_foreign_boots_end_it_and_the_default_is_back(machine):
    machine.init()
    machine.run("next")
    for _ in range(3):
        machine.boot(f"{NEW} single")
        ended = machine.run("next")
    assert isinstance(ended.exception, HostError) and "failed 3 times" in str(ended.exception)
    assert plans.held() is None and (machine.directory / "next").read_text().strip() == ""
    machine.boot(f"{NEW} single")
    assert machine.run("next", "plan").exit_code == 0 and plans.held() is not None  # tried again
    for _ in range(3):  # and given up again: what failed before the last time is not counted
        machine.boot(f"{NEW} single")
        ended = machine.run("next", "plan")
    assert "failed 3 times" in str(ended.exception) and plans.held() is None
    machine.boot(f"{NEW} single")
    assert machine.run("next", "plan").exit_code == 0 and plans.held() is not None


def test_a_command_is_tried_first_runs_where_it_was_typed_and_can_be_forgotten(machine):
    words = ("init", "x.toml", "--kernels", f"{OLD},{NEW}", "--out", "plan", "--with", "./next.sh")
    refused, script = machine.run(*words), machine.directory / "next.sh"
    assert "./next.sh: not found" in str(refused.exception) and plans.held() is None
    assert "--with" in refused.exception.hint and not (machine.directory / "plan").exists()
    script.write_text('#!/bin/sh\necho "$SCHEDLAB_KERNEL" > next\n')
    script.chmod(0o755)
    assert machine.run(*words).exit_code == 0
    machine.patch.chdir("/")
    plans.Boots().next(Permission())
    assert (machine.directory / "next").read_text().strip() in (OLD, NEW)
    script.unlink()
    with pytest.raises(HostError, match="not found") as error:
        plans.Boots().end()
    note = error.value.hint.partition("rm ")[2]
    (machine.directory / note).unlink()
    assert plans.held() is None


def test_recover_clears_every_dead_device_and_says_how_boots_without_a_loader_are_forgotten(
    machine, monkeypatch
):
    monkeypatch.setattr(boots_held.loaders, "_output", lambda *_, **__: "no")
    note = boots_held.Held("plan", root=str(machine.directory / "elsewhere"))
    file = boots_held.held_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(encode(to_json(note)) + "\n")
    dead = [journal.state_directory() / keeper.DEVICES / name for name in ("one", "two")]
    for each in dead:
        each.mkdir(parents=True)
    with pytest.raises(HostError, match="neither GRUB") as error:
        recover_all(None, dry_run=False)
    assert f"schedlab boots end; or forget these boots: rm {file}" in error.value.hint
    assert not any(each.exists() for each in dead)


def test_recover_restores_the_default_and_removes_the_unit(machine):
    root = machine.directory / "root"
    machine.init("--root", str(root), "--unit", "--trust")
    machine.run("next")
    unit = root / plans.UNIT
    enabled = ["systemctl", f"--root={root}", "is-enabled", unit.name]
    if shutil.which("systemctl"):
        assert subprocess.run(enabled, check=False, capture_output=True).stdout == b"enabled\n"
    text = unit.read_text()
    assert '"boots" "next"' in text and text.count('"--trust"') == 1
    shown = recover_all(None, dry_run=True).removed
    assert str(unit) in shown and unit.exists() and plans.held()
    (fact,) = doctor.boots()
    assert str(machine.directory / "plan") in fact.found and fact.command == "schedlab boots status"
    assert recover_all(None, dry_run=False).removed == shown
    assert not unit.exists() and not (root / plans.WANTED).is_symlink() and plans.held() is None
    assert (machine.directory / "next").read_text().strip() == ""
    assert recover_all(None, dry_run=False).removed == [] == [*doctor.boots()]


def test_one_boot_of_each_is_said_to_be_that_and_more_are_asked_for(machine):
    machine.init(rounds=1)
    for _ in range(4):
        ended = machine.run("next")
        machine.boot()
    told = " ".join(ended.stdout.split())
    assert f"Keep {OLD} until then" in told and "best" not in told
    assert "schedlab boots next" in ended.stdout and "--boots 3" in ended.stdout
    machine.run("next", "plan", "--boots", "3")
    assert machine.opened_plan().plan.ends == (1, 3)
    assert plans.joined(machine.opened_plan()).plan.ends == (2, 6)  # in blocks


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"BOOT_IMAGE=/vmlinuz-1 {USUAL} maxcpus=1 initrd=/i", ""),
        (f"maxcpus=1 {USUAL}", ""),
        (USUAL, "not maxcpus=1"),
        (f"{USUAL} maxcpus=1 single", "also single"),
    ],
)
def test_a_boot_is_told_by_its_kernel_and_its_command_line(tmp_path, line, reason):
    (tmp_path / "x.toml").write_text(FILE)
    kind = parse_kind("one=as-is cmdline=maxcpus=1", "6.1")
    assert kind == BootKind("one", "6.1", "maxcpus=1")
    plan = plan_boots(read_experiment(tmp_path / "x.toml"), [kind, BootKind("b", "2")], 2, USUAL)
    assert reason in is_other(plan, kind, "6.1", line)
    assert bool(is_other(plan, kind, "6.1", line)) == bool(reason)
    assert "Linux 6.2 runs, not 6.1" in is_other(plan, kind, "6.2", line)


def test_facts_that_all_boots_share_are_those_of_the_result():
    tables = [{"cpu": {"model": "x", "MHz": n}, "kernel": n, "HZ": 250} for n in range(2)]
    assert plans._common(tables) == {"cpu": {"model": "x"}, "HZ": 250}


def test_what_needs_no_reboot_is_refused(machine):
    refused = machine.run("init", "x.toml", "--candidate", "a=6.1 thp=never", "--kernels", NEW)
    assert "thp needs no reboot" in str(refused.exception)
    text = FILE.replace("stopping = { blocks = 2 }", 'stopping = { budget_s = "1m" }')
    (machine.directory / "x.toml").write_text(text)
    assert "fixed number of blocks" in str(machine.init().exception)
    assert not (machine.directory / "plan").exists()


@pytest.fixture
def grub(tmp_path):
    """A /boot with two kernels and the menu that this machine's grub-mkconfig makes of them."""
    for program in ("grub-mkconfig", "grub-reboot", "grub-editenv", "unshare"):
        if not shutil.which(program):
            pytest.skip(f"needs {program} (Debian: grub2-common)")
    boot = tmp_path / "boot"
    (boot / "grub").mkdir(parents=True)
    for release in (OLD, NEW):
        (boot / f"vmlinuz-{release}").touch()
        (boot / f"initrd.img-{release}").touch()
    script = f"mount --bind {boot} /boot && grub-mkconfig -o /boot/grub/grub.cfg"
    made = subprocess.run(["unshare", "-m", "sh", "-c", script], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"grub-mkconfig cannot run here: {made.stderr.decode()[-200:]}")
    return bootloader.bootloader(root=tmp_path)


def environment(grub):
    listing = ["grub-editenv", str(grub.directory / "grubenv"), "list"]
    return subprocess.run(listing, check=True, capture_output=True, text=True).stdout


def test_grub_boots_each_kernel_once_and_then_its_default(grub):
    text = (grub.directory / "grub.cfg").read_text()
    (own,) = [line for line in text.splitlines() if f"with Linux {OLD}'" in line]
    grub.boot_once("a", OLD, "")
    menu, entry = environment(grub).removeprefix("next_entry=").strip().split(">")
    assert f"'{entry}'" in own and "submenu 'Advanced options" in text and f"'{menu}'" in text
    assert "recovery" not in entry and OLD in entry
    grub.boot_once("b", NEW, "")
    assert "simple" in environment(grub)  # the entry of the menu itself
    grub.reset()
    assert environment(grub) == ""


def test_an_entry_that_another_program_chose_meanwhile_stays(grub, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", str(tmp_path / "state"))
    held = boots_held.Held("plan", root=str(tmp_path), entry=grub.check("a", OLD, ""))
    for chosen, left in ((held.entry, ""), ("mine", "next_entry=mine\n")):
        file = boots_held.held_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(encode(to_json(held)) + "\n")
        grub.boot_once("a", OLD, "")
        assert "the default" in boots_held.give_back(dry_run=True)[0]
        subprocess.run(["grub-reboot", f"--boot-directory={tmp_path / 'boot'}", chosen], check=True)
        (line,) = boots_held.give_back()
        assert ("'mine'" in line) is bool(left) and environment(grub) == left


def test_grub_gets_an_entry_of_ours_for_words_of_the_command_line(grub):
    custom = grub.directory / "custom.cfg"
    custom.write_text("# the user's own\n")
    grub.boot_once("one", NEW, "maxcpus=1 mitigations=off")
    grub.boot_once("one", NEW, "maxcpus=1")
    assert environment(grub) == f"next_entry={bootloader.ENTRY}\n"
    subprocess.run(["grub-script-check", str(custom)], check=True)
    (line,) = [line for line in custom.read_text().splitlines() if "linux\t" in line]
    assert NEW in line and line.split()[-1] == "maxcpus=1"
    grub.boot_once("a", OLD, "")
    assert custom.read_text() == "# the user's own\n"
    grub.reset()
    assert custom.read_text() == "# the user's own\n" and environment(grub) == ""


@pytest.mark.parametrize(("text", "left"), [("# mine", "# mine\n"), ("", "\n"), ("a\n", "a\n")])
def test_a_file_of_the_users_keeps_its_mode_its_link_and_its_lines(tmp_path, text, left):
    (tmp_path / "mine.cfg").write_text(text)
    (tmp_path / "mine.cfg").chmod(0o600)
    (tmp_path / "custom.cfg").symlink_to("mine.cfg")
    grub, ours = bootloader.Grub(tmp_path), f"{bootloader._BEGIN}x\n{bootloader._END}"
    for block in (ours, ours, ""):
        grub._write_custom(block)
        assert (tmp_path / "mine.cfg").read_text() == left + block
    assert (tmp_path / "custom.cfg").is_symlink()
    assert (tmp_path / "mine.cfg").stat().st_mode & 0o777 == 0o600


def test_grub_without_the_kernel_or_the_means_is_refused(grub):
    with pytest.raises(SpecError, match=r"no entry of Linux 6\.1\.0-57") as refused:
        grub.check("a", "6.1.0-57-amd64", "")
    assert refused.value.hint == f"did you mean {OLD!r}?"
    menu = grub.directory / "grub.cfg"
    menu.write_text(menu.read_text().replace("custom.cfg", "other.cfg"))
    grub.check("a", OLD, "")
    with pytest.raises(SpecError, match=r"no custom\.cfg"):
        grub.check("a", OLD, "maxcpus=1")
