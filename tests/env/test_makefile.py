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
        timeout=180,
    )


def targets():
    text = (ROOT / "Makefile").read_text()
    return re.findall(r"^\.PHONY: (\S+)$", text, re.MULTILINE)


def shown(text):
    """Targets that a help names, in its order."""
    return re.findall(r"^  ([a-z-]+) +\S", text, re.MULTILINE)


def test_help_is_one_screen_and_a_tour():
    text = make().stdout
    assert len(text.splitlines()) <= 24
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert shown(text)[:3] == ["init", "env", "lock"]
    assert {"train", "test", "doctor", "monitor", "image", "check", "docs"} <= set(shown(text))
    assert set(shown(text)) <= set(targets())
    # a word of the tour that names no target would show nothing, silently
    tour = re.search(r"^TOUR := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1)
    assert set(tour.split()) == set(shown(text))
    assert "make help-all" in text


def test_help_all_shows_each_target():
    text = make("help-all").stdout
    assert len(targets()) >= 10
    assert sorted(shown(text)) == sorted(targets())
    assert [line for line in text.splitlines() if len(line) > 80] == []


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
        (["TORCH=current"], ".venv-current"),
        (["PYTHON=/usr/bin/python3.11"], ".venv-3.11"),
        (["TORCH=floor", "PYTHON=3.10"], ".venv-floor-3.10"),
        (["VENV=/opt/x"], "/opt/x"),
    ],
)
def test_each_python_has_its_own_folder(settings, folder, tmp_path):
    show = tmp_path / "show.mk"
    show.write_text('show:\n\t@echo "$$VENV"\n')
    assert make("-f", "Makefile", "-f", str(show), "show", *settings).stdout == folder + "\n"


@pytest.mark.parametrize(
    ("setting", "name"), [("data=x", "DATA"), ("gpus=2", "GPUS"), ("env_from=conda", "ENV_FROM")]
)
def test_a_setting_in_small_letters_is_refused(setting, name):
    result = make("-n", "train", setting)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    small = setting.split("=")[0]
    assert f'"{small}" on the command line is no setting; expected capitals: {name}.' in (
        result.stderr
    )


def test_every_setting_is_known_in_small_letters():
    text = (ROOT / "Makefile").read_text()
    names = re.findall(r"^([A-Z_]+) \?=", text, re.MULTILINE)
    assert [make("-n", "help", f"{name.lower()}=1").returncode for name in names] == [2] * len(
        names
    )


def test_the_environment_may_have_such_names(monkeypatch):
    monkeypatch.setenv("name", "x")
    assert make("-n", "train").returncode == 0


def test_a_path_with_blanks_stays_one_argument():
    recipe = make("-n", "train", "DATA=/my photos/x").stdout
    assert '--config configs/folder.yaml --data.path "$DATA"' in recipe
