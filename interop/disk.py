"""A disk that hangs: `fsync` and `fdatasync` of a started process do not return while a file is there.

The file holds a part of the paths that hang; an empty one means all. A disk that hangs neither fails nor answers, which no
mount option and no limit of the system makes: the calls are stopped in the process, by a library that is loaded before the
C library.
"""

import subprocess

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_for_disk(int fd) {
    for (;;) {
        char wanted[256] = "", link[64], path[4096] = "";
        int flag = open(getenv("HANG"), O_RDONLY);
        if (flag < 0) return;
        ssize_t bytes = read(flag, wanted, sizeof wanted - 1);
        close(flag);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (bytes > 0 && readlink(link, path, sizeof path - 1) > 0 && !strstr(path, wanted)) return;
        usleep(10000);
    }
}

int fsync(int fd) {
    wait_for_disk(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    wait_for_disk(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


class Disk:
    """Processes started with `environment` have it."""

    def __init__(self, folder):
        self.flag, library, source = folder / "hangs", folder / "hang.so", folder / "hang.c"
        source.write_text(SOURCE)
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.environment = {"LD_PRELOAD": str(library), "HANG": str(self.flag)}

    def hang(self, part=""):
        """Files whose paths hold `part` are not synced from here on."""
        self.flag.write_text(part)

    def answer(self):
        """All are again."""
        self.flag.unlink(missing_ok=True)
