"""Kernels compiled ahead: all of them, kept where the next program looks."""

import os
import re
import subprocess
import sys
from pathlib import Path

from train.data import compile_kernels

DATA = Path(compile_kernels.__file__).parent
KERNEL = re.compile(r"\n@kernel[^\n]*\n(?:    [^\n]*\n|\)\n)*def (\w+)")


def test_every_kernel_is_compiled_and_kept(tmp_path):
    """In a fresh cache; those that read coefficient records are one import, checked by its mark."""
    code = "from train.data.compile_kernels import compile_all_others; compile_all_others()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
    kept = {file.name.rsplit("-", 1)[0] for file in tmp_path.glob("wellfed-*/**/*.nbi")}
    missing = set()
    for file in DATA.rglob("*.py"):
        if file.parent.name == "coefficients" and file.stem != "pack_kernels":
            continue
        for name in KERNEL.findall(file.read_text("utf-8")):
            if not any(found.startswith(f"{file.stem}.{name}") for found in kept):
                missing.add(f"{file.stem}.{name}")
    assert len(kept) > 40
    assert not missing


def test_what_cannot_be_compiled_is_one_line(monkeypatch, capsys):
    class Broken:
        def __init__(self, *arguments):
            raise ImportError("No module named 'numba'")

    monkeypatch.setattr(compile_kernels, "ProcessPoolExecutor", Broken)
    assert compile_kernels.main() == 2
    assert capsys.readouterr().err == (
        "error: the kernels can't be compiled: No module named 'numba'\n"
    )
