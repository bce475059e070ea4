"""A fleet of two machines: sshd in namespaces of this one, each with a loop device of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loops import loop_device
from printed import ROOT
from ssh_hosts import keys, ssh_host

SIZE_BYTES = 256 << 20
HOSTS = ("h01", "h02")
OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5"


@contextmanager
def fleet_hosts(place: Path, program: Path) -> Iterator[dict[str, str]]:
    """`inventory`: the text of one that names the hosts, whose schedlab is below `program`."""
    packages = ["iproute2", "libwrap0", "openssh-client", "util-linux"]
    subprocess.run([ROOT / "tests" / "install-packages", *packages], check=True)
    unpacking = [ROOT / "tests" / "unpack", "openssh-server", "sshd", "target/openssh"]
    subprocess.run(unpacking, cwd=ROOT, check=True)
    lines = ["[all:vars]", "ansible_user=root", f"ansible_ssh_private_key_file={keys(place)}",
             f"ansible_ssh_common_args='{OPTIONS}'", "schedlab_poll_seconds=1",
             f"ansible_python_interpreter={program}/python",
             f"schedlab_command={program}/schedlab",
             'schedlab_candidates=["none", "bfq"]', "[all]"]  # fmt: skip
    with ExitStack() as stack:
        for name in HOSTS:
            device = stack.enter_context(loop_device(place / name, SIZE_BYTES))
            number = int(device.removeprefix("/dev/loop")) % 256  # of no other run at once
            subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
            host = stack.enter_context(ssh_host(place, number, device, "true"))
            lines.append(f"{name} ansible_host={host.address} schedlab_device={Path(device).name}")
        yield {"inventory": "\n".join(lines) + "\n"}
