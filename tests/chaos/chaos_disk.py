"""A small disk for a run's folder, which can be full: a tmpfs mount, where one may mount."""

import errno
import os
import shutil
import subprocess

MIB = 48
"""Five checkpoints of the models used, and what else a run writes."""


class Disk:
    """A small disk. Use it as a context: it is mounted meanwhile.

    Args:
        folder: where it is mounted.

    Attributes:
        small: it is mounted; False: it is an ordinary folder, since one may not mount here.
    """

    def __init__(self, folder):
        self.folder, self.small = folder, False
        self._filler = folder / "filler"

    def __enter__(self):
        while os.path.ismount(self.folder):  # of one that was killed
            _call("umount", self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.small = os.geteuid() == 0 and _call(
            *("mount", "-t", "tmpfs", "-o", f"size={MIB}m", "chaos"), self.folder
        )
        return self

    def __exit__(self, *_):
        if self.small:
            _call("umount", "-l", self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self, left):
        """Fill it, but for so many bytes: a file then fails in its middle."""
        assert self.small, "an ordinary disk is not filled"
        with open(self._filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            os.truncate(self._filler, max(0, file.tell() - left))

    def empty(self):
        """Take away what filled it."""
        self._filler.unlink(missing_ok=True)


def _call(*command):
    try:
        return subprocess.run([str(word) for word in command], capture_output=True).returncode == 0
    except OSError:
        return False
