"""systemd-boot by its own `bootctl`, in a view of this machine that was booted by it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# A root without the mark of a container, an EFI partition with two kernels, and EFI variables.
VIEW = """\
set -e; cd "$1"; mkdir view root; mount -t tmpfs view view; mkdir view/upper view/work
mount -t overlay -o lowerdir=/,upperdir=view/upper,workdir=view/work root root
rm -f root/.dockerenv; for each in proc sys dev tmp; do mount --rbind /$each root/$each; done
mount -t tmpfs run root/run; mount -t tmpfs firmware root/sys/firmware
mount -t tmpfs esp root/mnt; mkdir -p root/mnt/loader/entries root/mnt/EFI/systemd root/mnt/k
touch root/mnt/k/linux
for kernel in 6.1.0-56-amd64 6.12.117+deb12-amd64; do
  printf 'title Debian\\nversion %s\\nlinux /k/linux\\noptions root=/dev/vda ro\\n' $kernel \
    >root/mnt/loader/entries/m-$kernel.conf
done
variables=root/sys/firmware/efi/efivars; mkdir -p $variables
printf '\\6\\0\\0\\0s\\0\\0\\0' >$variables/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f
export SYSTEMD_RELAX_ESP_CHECKS=1 SYSTEMD_ESP_PATH=/mnt
chroot root "$2" "$3" inside
"""


def inside():
    """What the test does in that view."""
    from schedlab.errors import SpecError
    from schedlab.host.bootloader import SystemdBoot

    old, new = "6.1.0-56-amd64", "6.12.117+deb12-amd64"
    entries, variables = Path("/mnt/loader/entries"), Path("/sys/firmware/efi/efivars")

    def oneshot():
        texts = [each.read_bytes()[4:] for each in variables.glob("LoaderEntryOneShot-*")]
        return texts[0].decode("utf-16-le").partition("\0")[0] if texts else ""

    SystemdBoot().boot_once("a", old, "")
    assert oneshot() == f"m-{old}.conf"
    SystemdBoot().boot_once("b", new, "maxcpus=1")
    assert oneshot() == "schedlab-boots.conf"
    own = entries / "schedlab-boots.conf"
    assert f"version {new}" in own.read_text() and "\noptions maxcpus=1\n" in own.read_text()
    SystemdBoot().check("a", new, "")  # ours is no entry of a kernel
    SystemdBoot().boot_once("a", new, "")
    SystemdBoot().reset(keep=True)
    assert oneshot() == f"m-{new}.conf" == SystemdBoot().chosen() and not own.exists()
    SystemdBoot().reset()
    assert oneshot() == "" == SystemdBoot().chosen() and len([*entries.iterdir()]) == 2
    with pytest.raises(SpecError, match=r"lists no Linux 6\.2"):
        SystemdBoot().check("a", "6.2", "")


def test_systemd_boot_boots_each_kernel_once(tmp_path, monkeypatch):
    unpacked = Path(__file__).parents[2] / "target" / "systemd-boot" / "usr" / "bin"
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{unpacked}")
    if not shutil.which("bootctl"):
        pytest.skip("needs bootctl (Debian: systemd-boot)")
    command = ["unshare", "-m", "sh", "-c", VIEW, "sh", tmp_path, sys.executable, __file__]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if "Operation not permitted" in done.stderr:
        pytest.skip("needs to mount")
    assert done.returncode == 0, done.stderr


if __name__ == "__main__" and sys.argv[1:] == ["inside"]:
    inside()
