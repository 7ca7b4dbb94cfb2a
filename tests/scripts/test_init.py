"""`make init`: what is renamed, what is refused, and that nothing changes then."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from instances import ROOT, copy_of_the_template, git

SCRIPT = "scripts/init.py"
pytestmark = pytest.mark.skipif(
    'name = "wellfed"' not in (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    reason="this project has a name of its own, and the tests are those of the template",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return copy_of_the_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def project(template, tmp_path):
    """A fresh clone of the template."""
    folder = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(template), str(folder))
    return folder


def init(folder, name="", way="", **more):
    env = {**os.environ, "NAME": name, "ENV_FROM": way, **more}
    return subprocess.run(
        [sys.executable, SCRIPT], cwd=folder, env=env, capture_output=True, text=True, timeout=180
    )


def renamed(folder, *words):
    done = init(folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changed(folder):
    return set(git(folder, "diff", "--name-only").split())


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


def test_each_rule_finds_something(project, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import init as script

    names = script.current_names()
    words = {"old": re.escape(names.project), "image": re.escape(names.image)}
    for pattern, what, _ in script.RULES:
        texts = [path.read_text() for path in sorted(project.glob(pattern))]
        assert any(re.search(what % words, text, re.M) for text in texts), (pattern, what)


def test_a_project_gets_its_name_everywhere(project):
    before = read(project, "CHANGELOG.md")
    told = renamed(project, "my-project", "conda")
    assert 'name = "my-project"' in read(project, "pyproject.toml")
    assert read(project, "README.md").startswith("# my-project\n")
    assert "docker run --gpus all -p 127.0.0.1:8888:8888 my-project:v2.6\n" in read(
        project, "README.md"
    )
    assert read(project, "Makefile").startswith("ENV_FROM ?= conda\n")
    compose = yaml.safe_load(read(project, "docker-compose.yml"))
    assert compose["services"]["lab"]["image"] == "${IMAGE:-my-project:local}"
    settings = read(project, ".env.example")
    assert "\nIMAGE=my-project:local\n" in settings
    assert settings.endswith("\nCOMPOSE_PROJECT_NAME=my-project\n")
    service, job = yaml.safe_load_all(read(project, "deploy/kubernetes.yaml"))
    assert service["metadata"]["name"] == job["metadata"]["name"] == "my-project"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "my-project:v2.6"
    assert "--rdzv-endpoint=my-project-0.my-project:29500" in container["args"]
    assert "--config=/opt/wellfed/configs/imagenet_resnet50.yaml" in container["args"]
    assert "#SBATCH --job-name=my-project\n" in read(project, "deploy/slurm.sh")
    assert "IMAGE=${IMAGE:-my-project.sif}" in read(project, "deploy/slurm.sh")
    assert yaml.safe_load(read(project, "environment.yml"))["name"] == "my-project"
    log = read(project, "CHANGELOG.md")
    assert "## [Unreleased]\n\n### Added\n\n- The project, from the template" in log
    assert len(log) < len(before)
    # the Makefile is told apart, the changelog with all others
    number = len(changed(project)) - 1
    first = f"The project is called my-project now, in {number} files; CHANGELOG.md begins anew."
    assert told.splitlines()[:2] == [first, "Makefile: ENV_FROM ?= conda"]
    assert len(told.splitlines()) == 4
    assert max(map(len, told.splitlines())) <= 88


def test_what_is_no_name_of_the_project_stays(project):
    renamed(project, "my-project")
    assert changed(project) & {"LICENSE", "conda-lock.yml", "scripts/env/marker.sh"} == set()
    assert not [name for name in changed(project) if name.startswith(("train/", "locks/"))]
    # a conda package of that name is no image
    assert "pytorch-cuda=11.8" in read(project, "README.md")
    assert "pytorch::pytorch-cuda=11.8" in read(
        project, "environments/pytorch-channel/environment.yml"
    )
    modes = git(project, "diff", "--summary")
    assert modes == "", "a script is no longer executable"
    for name in changed(project):
        left = re.findall(r"(?<![\w-])pytorch-cuda:[\w<]+", read(project, name))
        assert left == [], name


def test_the_second_time_does_nothing_and_says_so(project):
    renamed(project, "my-project", "wheels")
    texts = {name: read(project, name) for name in changed(project)}
    told = renamed(project, "my-project", "wheels")
    assert told == "the project is called my-project already: nothing to do\n"
    assert {name: read(project, name) for name in changed(project)} == texts


def test_another_name_renames_again(project):
    renamed(project, "my-project")
    log = read(project, "CHANGELOG.md")
    git(project, "commit", "--quiet", "--all", "--message", "named")
    renamed(project, "data")  # a word that stands in many files and means something else there
    assert 'name = "data"' in read(project, "pyproject.toml")
    assert "--data.path=/data" in read(project, "deploy/kubernetes.yaml")
    assert read(project, ".env.example").count("COMPOSE_PROJECT_NAME=") == 1
    assert read(project, "CHANGELOG.md") == log
    git(project, "commit", "--quiet", "--all", "--message", "named again")
    renamed(project, "my-project")
    assert git(project, "diff", "HEAD~1", "--stat") == "", "there and back again"


def test_the_way_can_be_pinned_without_a_name(project):
    told = renamed(project, "", "channels")
    assert changed(project) == {"Makefile"}
    assert told.startswith("Makefile: ENV_FROM ?= channels\nSee it: git diff")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("My Project",), "NAME='My Project' is no name for a project; expected small letters"),
        (("1st",), "a letter first"),
        (("a--b",), "single hyphens"),
        (("a_b",), "such as my-project"),
        (("a" * 41,), "at most 40 characters"),
        (("my-project\n",), "is no name for a project"),
        (("torch",), "NAME=torch is the name of a package that this project uses"),
        (("train",), "take another"),
        ((), "NAME is missing; say make init NAME=my-project"),
        (("my-project", "pip"), "ENV_FROM=pip is not known; expected auto, conda, channels"),
    ],
    ids=repr,
)
def test_a_setting_that_cannot_be_is_one_message(project, settings, message):
    done = init(project, *settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert changed(project) == set()


@pytest.mark.parametrize("kind", ["changed", "new"])
def test_a_dirty_tree_is_refused(project, kind):
    name = "Makefile" if kind == "changed" else "notes.txt"
    with open(project / name, "a") as file:
        file.write("# mine\n")
    before = git(project, "diff")
    done = init(project, "my-project")
    assert done.returncode == 2
    assert f"changes that are not committed ({name}); commit or stash" in done.stderr
    assert git(project, "diff") == before


def test_what_is_no_repository_is_refused(project):
    shutil.rmtree(project / ".git")
    # nor may a folder above be one
    done = init(project, "my-project", GIT_CEILING_DIRECTORIES=str(project.parent))
    assert done.returncode == 2
    assert "this is no git repository that can be read" in done.stderr
    assert read(project, "README.md") == read(ROOT, "README.md")


def test_without_git_it_is_refused(project, tmp_path):
    done = init(project, "my-project", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "git is not installed" in done.stderr
    assert changed(project) == set()


def test_a_file_that_cannot_be_written_is_told(project):
    (project / "README.md.new").mkdir()
    (project / ".git/info/exclude").write_text("README.md.new\n")
    done = init(project, "my-project")
    assert done.returncode == 2
    assert "cannot write README.md: Is a directory; git checkout . brings back" in done.stderr


def test_an_own_env_is_left_alone_and_told(project):
    (project / ".env").write_text("IMAGE=pytorch-cuda:local\n")
    told = renamed(project, "my-project")
    assert "write IMAGE=my-project:local and COMPOSE_PROJECT_NAME=my-project there" in told
    assert read(project, ".env") == "IMAGE=pytorch-cuda:local\n"


def test_make_passes_name_and_way_on(project):
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--no-print-directory", "init", "NAME=by-make", "ENV_FROM=wheels"],
        cwd=project, env=env, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read(project, "Makefile").startswith("ENV_FROM ?= wheels\n")
    assert read(project, "README.md").startswith("# by-make\n")


def test_documents_and_site_bear_the_new_name(project):
    renamed(project, "my-project")
    assert read(project, "docs/index.md").startswith("# my-project\n")
    assert "\nsite_name: my-project\n" in read(project, "mkdocs.yml")
    container = read(project, "docs/container.md")
    assert "kubectl logs -f job/my-project\n" in container
    assert "wellfed.sif" not in container


def test_a_rename_that_was_cut_off_is_not_taken_for_done(project):
    """Ctrl-C at the third file: one line, and the next call does not say that all is done."""
    cut = (
        "import sys; sys.path.insert(0, 'scripts'); import init, itertools\n"
        "write, count = init.write, itertools.count()\n"
        "def third(path, text):\n"
        "    if next(count) == 2: raise KeyboardInterrupt\n"
        "    write(path, text)\n"
        "init.write = third; sys.exit(init.main())\n"
    )
    env = {**os.environ, "NAME": "my-project", "ENV_FROM": ""}
    command = [sys.executable, "-c", cut]
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 130
    assert done.stderr == "interrupted; git checkout . brings back what was changed\n"
    again = init(project, "my-project")
    assert again.returncode == 2
    assert "not committed" in again.stderr
