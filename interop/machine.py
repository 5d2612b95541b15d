"""A machine of its own for tests of packages: systemd as first process of its namespaces, over a copy-on-write view of this machine.

It has its own processes, network, packages, users and services, so a package is installed as on any machine, and nothing of this one
changes. Only root may make one.
"""

import os
import shutil
import subprocess
from pathlib import Path

from waiting import until

SYSTEMD = "/usr/lib/systemd/systemd"
NAMESPACES = ["--mount", "--pid", "--ipc", "--uts", "--cgroup", "--net"]
# Services of this machine stay here, and systemd changes no setting of the kernel.
BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty dev/
ln -s pts/ptmx dev/ptmx
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
rm -rf etc/systemd/system/*.wants
rm -f etc/fstab
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --bounding-set=-sys_module,-sys_time "$2" --unit=basic.target --log-target=journal --show-status=false
"""


def refused():
    """Why no machine can be made here; None where it can."""
    if os.geteuid() != 0:
        return "only root makes namespaces with a systemd of their own"
    absent = [word for word in ("dpkg", "unshare", "nsenter", "pivot_root", "setpriv", SYSTEMD) if not shutil.which(word)]
    if absent:
        return f"no {', '.join(absent)}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True)
    return tried.stderr.strip() or None


class Machine:
    """One that runs; what it has written ends with it."""

    def __init__(self, folder):
        folder = Path(folder) / "machine"
        folder.mkdir()
        words = ["unshare", *NAMESPACES, "--fork", "--kill-child", "bash", "-c", BOOT, "boot", folder, SYSTEMD]
        self.log = open(folder.parent / "machine.log", "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(self._is_up, self._said, 30)

    def _is_up(self):
        assert self.process.poll() is None, self._said()
        of = self.process.pid
        children = Path(f"/proc/{of}/task/{of}/children").read_text().split()
        self.first = children[0] if children else None
        if not self.first or Path(f"/proc/{self.first}/exe").resolve().name != "systemd":
            return False
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def _said(self):
        self.log.seek(0)
        return self.log.read()

    def run(self, *words, check=True, seconds=60):
        """Runs a command there, to its end."""
        inside = ["nsenter", f"--target={self.first}", "-m", "-p", "-n", "-C", "-i", "-u", "--root", "--wd"]
        done = subprocess.run([*inside, *map(str, words)], capture_output=True, text=True, timeout=seconds)
        assert not check or done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
        return done

    def path(self, name):
        """A file of it, for a program of this machine."""
        return Path(f"/proc/{self.first}/root{name}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # As it shuts down, systemd removes its control groups, which no namespace ends.
        self.run("systemctl", "--no-block", "poweroff", check=False)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
