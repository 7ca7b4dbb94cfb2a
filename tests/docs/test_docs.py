"""What the documents say is true: commands, settings, numbers, links, examples."""

import argparse
import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from train import config
from train.command_line import build_parser
from train.data import plan

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(page, language):
    """Bodies of the fenced blocks that are marked as tested."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.S)
    return [body for body in found if body.startswith("# tested\n")]


def examples(language):
    return [
        pytest.param(page, body, id=name_of(page))
        for page in PAGES
        for body in blocks(page, language)
    ]


def table_row(text, beginning):
    rows = [line for line in text.splitlines() if line.startswith(f"| {beginning}")]
    assert len(rows) == 1, f"{len(rows)} rows begin with {beginning!r}"
    return rows[0]


def settings():
    """section.key -> default of every setting."""
    return config.flatten(config.Config())


def lock_names(name):
    return re.findall(r"^- name: (\S+)$", (ROOT / name).read_text(), re.MULTILINE)


def lock_version(name, package):
    text = (ROOT / name).read_text()
    return re.search(rf"^- name: {package}\n  version: '?([^\s']+)'?$", text, re.MULTILINE).group(1)


# commands


def make_targets():
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):.*?  ## ", text, re.MULTILINE))


def test_make_targets_are_in_the_readme():
    rows = set(re.findall(r"^\| `make ([a-z-]+)` \|", README, re.MULTILINE))
    assert rows == make_targets()
    assert "train" in rows


@pytest.mark.parametrize("page", [*PAGES, *WORKFLOWS], ids=name_of)
def test_every_make_command_exists(page):
    used = set(re.findall(r"(?:`|^|run: )make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert used - make_targets() == set()


def test_verbs_have_help_and_are_in_the_readme():
    parser = build_parser()
    (commands,) = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    assert set(commands.choices) >= {"fit", "info"}
    helped = {action.dest: action.help for action in commands._choices_actions}
    for verb in commands.choices:
        assert re.search(rf"\btrain {verb}\b", README), verb
        assert helped[verb]
    named = set(
        re.findall(r"`(?:python -m )?train ([a-z]+)", "".join(p.read_text() for p in PAGES))
    )
    assert named - set(commands.choices) == set()


# settings


def test_each_setting_says_what_it_is():
    tree = ast.parse(Path(config.__file__).read_text())
    silent = []
    for owner in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        if owner.name == "Config":
            continue
        for field, after in zip(owner.body, [*owner.body[1:], None]):
            if isinstance(field, ast.AnnAssign):
                text = after.value if isinstance(after, ast.Expr) else None
                if not (isinstance(text, ast.Constant) and len(str(text.value)) > 10):
                    silent.append(f"{owner.name}.{field.target.id}")
    assert silent == []


def test_each_setting_is_in_the_help():
    text = subprocess.run(
        [sys.executable, "-m", "train", "fit", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert [key for key in settings() if f"--{key} " not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_settings_that_are_named_exist(page):
    text = page.read_text()
    named = set(re.findall(r"(?:`|--)((?:data|model|optim|run)\.[a-z_]+)(?=[ =`])", text))
    assert named - set(settings()) == set()


def test_numbers_of_the_settings_table_are_the_codes():
    workers = table_row(README, "workers (`data.workers`)")
    assert f"{plan.CPU_PERCENT} % of the usable CPUs, 1 to {plan.MOST_WORKERS};" in workers
    assert f"1 to {plan.MOST_WORKERS_ON_CPU};" in workers
    assert f"| {settings()['data.batch_size']} |" in table_row(README, "batch size")
    assert f"more than {settings()['data.bad_budget']:.1%}".replace("%", " %") in README
    assert f"every {settings()['run.checkpoint_minutes']:.0f} minutes" in README
    assert "a tenth of each class" in README
    assert settings()["data.val_share"] == 0.1


def test_the_table_of_ways_is_what_the_locks_hold():
    channel = "environments/pytorch-channel/conda-lock.yml"
    row = table_row(README, "`conda` |")
    assert f"{len(lock_names('conda-lock.yml'))} packages" in row
    assert f"| {lock_version('conda-lock.yml', 'python')} | 2.6.0 | 11.8 |" in row
    assert "\ntorch==2.6.0+cu118 " in (ROOT / "locks/conda-pip.lock").read_text()
    row = table_row(README, "`channels` |")
    assert f"{len(lock_names(channel))} packages" in row
    torch = lock_version(channel, "pytorch")
    assert f"| {lock_version(channel, 'python')} | {torch} | 11.8 |" in row
    assert lock_version(channel, "pytorch-cuda") == "11.8"
    assert "| 2.6.0 | 12.4 |" in table_row(README, "`wheels` |")
    assert re.search(r"^torch==2\.6\.0[ ;]", (ROOT / "locks/requirements.lock").read_text(), re.M)


def test_the_row_of_the_newest_versions_is_what_its_lock_holds():
    lock = (ROOT / "locks/current.lock").read_text()
    torch = re.search(r"^torch==([\d.]+)", lock, re.M).group(1)
    cuda = re.search(r"^cuda-toolkit==(\d+\.\d+)\.", lock, re.M).group(1)
    row = table_row(README, "`wheels`, with `TORCH=current` |")
    assert f"| {torch} | {cuda} |" in row
    pythons = re.search(r"current\) MINORS=\((\S+) (\S+)\)", (ROOT / "scripts/env.sh").read_text())
    assert f"| {pythons.group(1)} where it is found, else {pythons.group(2)} |" in row


# links and examples


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    local = [link for link in links if not re.match(r"https?://", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A folder with a small data/sample in it."""
    folder = tmp_path_factory.mktemp("examples")
    script = [sys.executable, ROOT / "scripts/sample_data.py", "--out", folder / "data/sample"]
    small = ["--train", "40", "--val", "10", "--size", "64", "--processes", "1"]
    subprocess.run([*script, *small], check=True, timeout=120, capture_output=True)
    return folder


def run_example(words, body, cwd):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        words,
        input=body,
        cwd=cwd,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("page", "body"), examples("bash"))
def test_shell_examples_run(page, body):
    assert run_example(["bash", "-euo", "pipefail"], body, ROOT)


@pytest.mark.parametrize(
    ("page", "body"),
    [
        pytest.param(page, body, id=name_of(page))
        for page in PAGES
        for body in blocks(page, "python")
    ],
)
def test_python_examples_run(page, body, sample):
    printed = run_example([sys.executable, "-"], body, sample)
    assert printed or body.startswith("# tested\n# mypkg/")  # a file of one's own defines, only


def test_there_are_examples():
    assert blocks(ROOT / "README.md", "bash")
    assert len(examples("python")) >= 2


@pytest.mark.parametrize(
    "words",
    [
        *(["-m", "train", *verb] for verb in ([], ["fit"], ["pack"], ["info"])),
        *([f"benchmarks/{path.name}"] for path in sorted(ROOT.glob("benchmarks/*.py"))),
    ],
    ids=" ".join,
)
def test_help_fits_a_terminal_of_eighty_columns(words):
    done = subprocess.run(
        [sys.executable, *words, "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
