"""Hosts of a fleet on this machine: an sshd of their own in own network and mount namespaces, with
an own /run and /var/lib, a file system on a device of their own in /mnt and /srv."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_S = 20.0
UNPACKED = Path(__file__).parents[2] / "target" / "openssh" / "usr" / "sbin"

START = """
mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && mkdir /run/sshd /run/home
mount --bind "$1/passwd" /etc/passwd
echo "$3" >/var/lib/work && mount "$2" /mnt && mount --bind /mnt /srv
ip link set lo up && exec {sshd} -D -e -f "$1/sshd_config"
"""


def sshd() -> str:
    """The program, also where `make test-fleet` has unpacked it."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:{UNPACKED}") or "sshd"


@dataclass
class Host:
    """`address` is reached from here; `process` is the sshd, `network` its namespace."""

    address: str
    process: subprocess.Popen[bytes]
    network: str = ""

    def processes(self) -> list[int]:
        """All that live in its network namespace."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if str((path / "ns/net").readlink()) == self.network:
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def kill(self, spared: str = "") -> None:
        """SIGKILL to every process of the host but those with `spared` in their command line."""
        for number in self.processes():
            try:
                line = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if not spared or spared not in line:
                    os.kill(number, signal.SIGKILL)
            except (OSError, ProcessLookupError):
                continue


def keys(place: Path) -> Path:
    """A key of this machine for all hosts, and their configuration; the private key's file."""
    for name in ("user", "host"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True
        )
    # Not the files that root's shell reads on this machine: a killed login may leave a lock there.
    users = "root:x:0:0::/run/home:/bin/sh\nsshd:x:998:65534::/run/sshd:/usr/sbin/nologin\n"
    (place / "passwd").write_text(users)
    (place / "sshd_config").write_text(
        f"HostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nPidFile none\nSubsystem sftp internal-sftp\n"
    )
    return place / "user"


@contextmanager
def ssh_host(place: Path, number: int, device: str, work: str) -> Iterator[Host]:
    """A host whose address is 10.213.`number`.2; the file system of `device` is its /mnt, and
    /var/lib/work has the line of shell `work`.
    """
    link, address = f"schedlab{number}", f"10.213.{number}.2"
    log = (place / f"sshd{number}.log").open("wb")
    process = subprocess.Popen(
        ["unshare", "--mount", "--net", "sh", "-ec", START.format(sshd=sshd()), "sh",
         place, device, work],
        stderr=log, start_new_session=True,
    )  # fmt: skip
    host = Host(address, process)
    try:
        host.network = _connect(link, number, process)
        yield host
    finally:
        host.kill()
        process.wait()
        log.close()
        subprocess.run(["ip", "link", "delete", link], check=False, stderr=subprocess.DEVNULL)


def _connect(link: str, number: int, process: subprocess.Popen[bytes]) -> str:
    """The network namespace of the host, which has an address now."""
    own = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + READY_S
    while Path(f"/proc/{process.pid}/ns/net").readlink() == own:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    inside = ["nsenter", f"--net=/proc/{process.pid}/ns/net", "ip"]
    for command in (
        ["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns",
         str(process.pid)],
        ["ip", "address", "add", f"10.213.{number}.1/30", "dev", link],
        ["ip", "link", "set", link, "up"],
        [*inside, "address", "add", f"10.213.{number}.2/30", "dev", "eth0"],
        [*inside, "link", "set", "eth0", "up"],
    ):  # fmt: skip
        subprocess.run(command, check=True)
    return str(Path(f"/proc/{process.pid}/ns/net").readlink())
