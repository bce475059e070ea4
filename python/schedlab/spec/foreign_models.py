"""Descriptions of devices that belong to other simulators: named, with the way out."""

from __future__ import annotations

import re
from pathlib import Path

from schedlab.errors import SpecError

_OWN = (
    "take a shipped device and change its keys: --device nvme --set KEY=VALUE; "
    "schedlab docs ssd-simulator names them"
)
# program -> what its files have and ours have not; the way out.
PROGRAMS = {
    "DiskSim": (
        r"^\s*(disksim_\w+|dm_disk|dm_layout_\w+|dm_mech_\w+)\s+\S+\s*\{|^Byte Order \(Endian\)",
        "`tools/disksim` of the source tree converts it: schedlab docs disk-model",
    ),
    "MQSim": (
        r"<(Execution_Parameter_Set|Device_Parameter_Set|Host_Parameter_Set|MQSim_IO_Scenarios)\b",
        _OWN,
    ),
    "SimpleSSD": (r"<simplessd\b|^\s*\[(pal|icl|hil)\]", _OWN),
}


def refuse_foreign(file: Path, text: str) -> None:
    """SpecError that names the program whose file this is, and the way out."""
    for program, (pattern, hint) in PROGRAMS.items():
        if re.search(pattern, text, re.MULTILINE):
            raise SpecError(f"{file}: is a parameter file of {program}, not a device file", hint)
