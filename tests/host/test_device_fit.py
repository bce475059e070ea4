"""A real fit of an emulated device whose parts are known, without one write."""

from pathlib import Path

import pytest

from schedlab.host.emulated.emulated import Emulation
from schedlab.host.safety.control import Control
from schedlab_sim.fit.flash import fit_flash, probe_flash
from schedlab_sim.fit.reads import Reads

SIZE_BYTES = 256 << 20
CHANGES = {
    "flash.channels": 3, "flash.dies_per_package": 2, "flash.page_read": "400us",
    "flash.page_transfer": "300us",
}  # fmt: skip


@pytest.mark.sampled(2)
def test_the_parts_of_an_emulated_device_are_found_by_reading(root_with_loop, needs_fuse, state):
    with Control() as control:
        emulation = Emulation("sata-ssd", SIZE_BYTES, settings=CHANGES, data="none")
        device = control.emulated(emulation)
        stat = Path("/sys/block") / Path(device.path).name / "stat"
        before = stat.read_text().split()[4:7]
        fitted = fit_flash(probe_flash(Reads(device.path, SIZE_BYTES), 32))
        assert stat.read_text().split()[4:7] == before
    parts = [fitted.value(f"flash.{key}") for key in ("channels", "dies_per_package", "page")]
    assert parts == [3, 2, 4096]
    # Replies of a busy machine are late, never early.
    assert 330e3 < int(fitted.value("flash.page_read").removesuffix("ns")) < 600e3
    assert 240e3 < int(fitted.value("flash.page_transfer").removesuffix("ns")) < 450e3
