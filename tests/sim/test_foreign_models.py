"""Device files of other simulators: the program is named, and the way out."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from schedlab.app import documents
from schedlab.cli import cli
from schedlab.errors import SpecError
from schedlab_sim.device import device_text, devices

FILES = {
    "drive.parv": ("DiskSim", "disksim_global Global {\n   Init Seed = 42\n}\n"),
    "drive.diskspecs": ("DiskSim", "\n# a drive\ndisksim_disk HP {\n  Model = source x\n}\n"),
    "drive.model": ("DiskSim", "dm_disk CHEETAH {\n  Block count = 17783249,\n}\n"),
    "mechanics.model": ("DiskSim", "dm_mech_g1 {\n  Access time type = constant\n}\n"),
    "old.parv": ("DiskSim", "Byte Order (Endian): Little\nInit Seed: 42\n"),
    "ssdconfig.xml": (
        "MQSim",
        '<?xml version="1.0" encoding="us-ascii"?>\n<Execution_Parameter_Set>\n'
        "<Host_Parameter_Set/>\n<Device_Parameter_Set/>\n</Execution_Parameter_Set>\n",
    ),
    "workload.xml": ("MQSim", "<MQSim_IO_Scenarios>\n</MQSim_IO_Scenarios>\n"),
    "sample.cfg": ("SimpleSSD", "[cpu]\nClock = 400000000\n\n[pal]\nChannel = 8\nPackage = 4\n"),
    "sample.xml": ("SimpleSSD", '<?xml version="1.0"?>\n<simplessd version="2.1">\n</simplessd>\n'),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["sim run --device", "sim compare --device", "device up"])
def test_the_program_of_a_file_is_named(name: str, command: str, tmp_path: Path) -> None:
    program, text = FILES[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError, match=f"is a parameter file of {program}") as error:
        CliRunner().invoke(cli, [*command.split(), str(tmp_path / name)], catch_exceptions=False)
    page = error.value.hint.partition("schedlab docs ")[2].split()[0]
    assert page in documents.pages()


@pytest.mark.parametrize("name", devices())
def test_no_device_of_ours_is_taken_for_another_program_s(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(devices()[name])
    assert device_text(str(tmp_path / "own.toml")).startswith(devices()[name].rstrip()[:40])
