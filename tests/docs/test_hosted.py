"""Files that only hosts and editors read: workflows, forms, Dependabot, VS Code.

None of them can be run here: their structure is checked, and that what they name exists.
"""

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from train.command_line import build_parser

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
FORMS = sorted(path for path in GITHUB.glob("ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
EDITOR = sorted(ROOT.glob(".vscode/*.json"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
SETTINGS = set(re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def read_yaml(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def read_jsonc(path):
    """JSON with // comments, each on a line of its own."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))


# workflows


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_each_step_uses_an_action_or_runs_something(path):
    workflow = read_yaml(path)
    assert set(workflow) <= {"name", True, "permissions", "concurrency", "jobs"}  # YAML's "on"
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step), step
        assert set(step) <= {"name", "id", "if", "uses", "with", "run", "env", "shell"}, step


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_workflows_run_make_targets_that_exist(path):
    text = "\n".join(step["run"] for step in steps(read_yaml(path)) if "run" in step)
    calls = re.findall(r"\bmake ((?:-C \S+ )?)([a-z-]+)([^\n|&;]*)", text)
    assert calls
    for _, target, rest in calls:
        assert target in TARGETS, target
        assert set(re.findall(r"(?:^|\s)([A-Z_]+)=", rest)) <= SETTINGS, rest


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_each_value_of_the_matrix_is_there(path):
    for name, job in read_yaml(path)["jobs"].items():
        matrix = job.get("strategy", {}).get("matrix", {})
        rows = matrix.get("include") or [dict.fromkeys(matrix)]
        used = set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", json.dumps(job)))
        for row in rows:
            assert used == set(row), f"{name}: {row}"


def test_the_suite_runs_on_each_kind_of_versions():
    rows = read_yaml(GITHUB / "workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]
    assert {row["settings"] for row in rows} == {
        "PYTHON=3.9", "PYTHON=3.12", "TORCH=floor", "TORCH=current",
    }  # fmt: skip
    newest = [row["python"] for row in rows if row["settings"] == "TORCH=current"]
    script = (ROOT / "scripts/env.sh").read_text()
    assert newest == [re.search(r"current\) MINORS=\((\S+)", script).group(1)]


def test_dependabot_looks_at_what_is_there():
    settings = read_yaml(GITHUB / "dependabot.yml")
    assert settings["version"] == 2
    for update in settings["updates"]:
        assert set(update) == {"package-ecosystem", "directory", "schedule"}
        assert update["schedule"]["interval"] in {"daily", "weekly", "monthly"}
        assert (ROOT / update["directory"].lstrip("/")).is_dir()


# forms


@pytest.mark.parametrize("path", FORMS, ids=name_of)
def test_a_form_is_one(path):
    """The rules of issue forms: what GitHub refuses shows no form at all."""
    form = read_yaml(path)
    assert set(form) == {"name", "description", "labels", "body"}
    assert all(isinstance(label, str) for label in form["labels"])
    assert any(item["type"] != "markdown" for item in form["body"])
    names = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(names) == len(set(names))
    for item in form["body"]:
        assert item["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert set(item) <= {"type", "id", "attributes", "validations"}
        needed = "value" if item["type"] == "markdown" else "label"
        assert all(isinstance(value, (str, list)) for value in item["attributes"].values()), item
        assert item["attributes"][needed], item
        options = item["attributes"].get("options", ["one"])
        assert options
        assert all(isinstance(option, str) for option in options), "a number or a yes/no in YAML"
        assert len(options) == len(set(options))
        assert set(item.get("validations", {})) <= {"required"}


def test_forms_ask_for_what_the_program_says_of_itself():
    asked = {path.stem: path.read_text(encoding="utf-8") for path in FORMS}
    assert set(asked) == {"bug", "slow"}
    assert "train info" in asked["bug"]
    assert "train doctor" in asked["slow"]
    assert "make doctor" in asked["slow"]
    commands = "".join(asked.values())
    (choices,) = [a.choices for a in build_parser()._actions if hasattr(a, "add_subcommand")]
    assert set(re.findall(r"`(?:\.venv/bin/)?train ([a-z]+)", commands)) <= set(choices)
    assert isinstance(read_yaml(GITHUB / "ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"], bool)


def test_links_of_the_pull_request_s_form_lead_somewhere():
    text = (GITHUB / "pull_request_template.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((\S+?)\)", text)
    assert links
    assert [link for link in links if not (GITHUB / link).exists()] == []
    assert set(re.findall(r"`make ([a-z-]+)`", text)) <= TARGETS


# VS Code


@pytest.mark.parametrize("path", [*EDITOR, ROOT / ".devcontainer/devcontainer.json"], ids=name_of)
def test_the_editor_s_files_can_be_read(path):
    assert isinstance(read_jsonc(path), dict)


def test_what_f5_starts_is_there():
    tasks = {task["label"]: task for task in read_jsonc(ROOT / ".vscode/tasks.json")["tasks"]}
    started = {c["name"]: c for c in read_jsonc(ROOT / ".vscode/launch.json")["configurations"]}
    fit, test = started["train fit on the sample"], started["current test file"]
    assert {c["type"] for c in started.values()} == {"debugpy"}
    chosen = build_parser().parse_args(fit["args"]).fit
    assert (fit["module"], chosen.data.workers, chosen.data.path) == ("train", 0, "data/sample")
    assert (ROOT / tasks[fit["preLaunchTask"]]["args"][0]).is_file()
    assert test["module"] == "pytest"
    assert "${file}" in test["args"]


def test_the_container_s_extensions_are_recommended_too():
    recommended = set(read_jsonc(ROOT / ".vscode/extensions.json")["recommendations"])
    container = read_jsonc(ROOT / ".devcontainer/devcontainer.json")
    assert set(container["customizations"]["vscode"]["extensions"]) <= recommended
    needed = {"charliermarsh.ruff", "ms-python.debugpy", "ms-python.mypy-type-checker"}
    assert needed <= recommended


def test_an_interpreter_is_named_for_the_container_alone():
    """A folder's setting would win over the container's own."""
    assert "python.defaultInterpreterPath" not in read_jsonc(ROOT / ".vscode/settings.json")


# hooks


def test_hooks_look_at_files_that_exist():
    (repository,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert {"ruff", "ruff-format", "shellcheck", "yaml", "large-files", "private-keys"} <= set(
        hooks
    )
    for hook in hooks.values():
        words = shlex.split(hook["entry"]) if hook["language"] == "system" else []
        assert words[:1] in ([], [".venv/bin/python"], ["bash"]), hook
    pattern = re.compile(hooks["shellcheck"]["files"])
    scripts = [name_of(p) for p in ROOT.glob("*/*.sh") if not name_of(p).startswith(".")]
    assert [name for name in scripts if not pattern.search(name)] == ["deploy/slurm.sh"]
