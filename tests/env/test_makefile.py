"""The Makefile says what it offers, passes values on whole, and holds no undefined variable."""

import os
import re
import subprocess

import pytest
from checkout import ROOT


def make(*arguments):
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    for name in ("ENV_FROM", "PYTHON", "TORCH", "VENV", "FORCE", "DATA", "RESUME", "ARGS", "OUT"):
        env.pop(name, None)
    return subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory", *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
    )


def targets():
    text = (ROOT / "Makefile").read_text()
    return re.findall(r"^\.PHONY: (\S+)$", text, re.MULTILINE)


def test_help_shows_each_target():
    shown = make().stdout
    assert len(targets()) >= 10
    for name in targets():
        assert re.search(rf"^  {name} +\S", shown, re.MULTILINE), name


@pytest.mark.parametrize(
    "settings", [[], ["PYTHON=3.12"], ["TORCH=floor"], ["DATA=x"], ["RESUME=runs/x"]]
)
def test_no_variable_is_undefined(settings):
    result = make("-n", *targets(), *settings)
    assert result.returncode == 0
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ([], ".venv"),
        (["PYTHON=3.12"], ".venv-3.12"),
        (["TORCH=floor"], ".venv-floor"),
        (["PYTHON=/usr/bin/python3.11"], ".venv-3.11"),
        (["TORCH=floor", "PYTHON=3.10"], ".venv-floor-3.10"),
        (["VENV=/opt/x"], "/opt/x"),
    ],
)
def test_each_python_has_its_own_folder(settings, folder, tmp_path):
    show = tmp_path / "show.mk"
    show.write_text('show:\n\t@echo "$$VENV"\n')
    assert make("-f", "Makefile", "-f", str(show), "show", *settings).stdout == folder + "\n"


def test_a_path_with_blanks_stays_one_argument():
    recipe = make("-n", "train", "DATA=/my photos/x").stdout
    assert '--config configs/folder.yaml --data.path "$DATA"' in recipe
