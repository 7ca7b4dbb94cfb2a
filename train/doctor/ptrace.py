"""May this process look into another one of the same user, as py-spy does?

It is tried on a child, which has no more rights than we have.

Source: https://man7.org/linux/man-pages/man2/ptrace.2.html and
https://www.kernel.org/doc/html/latest/admin-guide/LSM/Yama.html
"""

import ctypes
import os
import signal
import subprocess
import sys

_ATTACH, _DETACH = 16, 17  # PTRACE_ATTACH, PTRACE_DETACH of <sys/ptrace.h>


def ptrace_problem() -> str:
    """Why not, in words; '' where it may, or where it can't be told."""
    if not sys.platform.startswith("linux"):
        return ""
    scope = _scope()
    if scope == "3":
        return "kernel.yama.ptrace_scope is 3: nobody may"
    try:
        child = subprocess.Popen(["sleep", "10"])
    except OSError:
        return ""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.ptrace.restype = ctypes.c_long
        library.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if library.ptrace(_ATTACH, child.pid, None, None) != 0:
            return os.strerror(ctypes.get_errno())
        os.waitpid(child.pid, os.WUNTRACED)
        library.ptrace(_DETACH, child.pid, None, None)
    except (AttributeError, OSError):
        return ""
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    if scope == "1" and os.geteuid() != 0:
        return "kernel.yama.ptrace_scope is 1: only a parent may look into its children"
    return ""


def _scope() -> str:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
