"""Give the project a name of its own: make init NAME=my-project [ENV_FROM=conda|channels|wheels].

Renames what two projects on one machine, in one cluster or in one organisation must not share: the
project in pyproject.toml, the image, the containers, the conda environment, the cluster jobs; and
the titles of README and site. The changelog begins anew. ENV_FROM becomes the default in the
Makefile's first line. What is no name of the project stays: the package `train`, the environment's
marker and the caches (`wellfed`), the licence.

Needs Python 3.9 or newer and git, no environment. Changes nothing where it refuses.
Exit codes: 0 done or nothing to do, 2 a message says why not.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Tuple

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = "wellfed"
WAYS = ("auto", "conda", "channels", "wheels")
NAME = re.compile(r"(?=.{1,40}$)[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""What a Python project, an image, a compose project and a Kubernetes job may be called, all."""

IMAGE = r"(?<!\w)(?<!\w-)%(image)s(?=:(?:v\d|local|<))"
RULES: Tuple[Tuple[str, str, str], ...] = (
    ("pyproject.toml", r'^name = "%(old)s"$', 'name = "%(new)s"'),
    (
        "pyproject.toml",
        r'^description = "A PyTorch project template .*"$',
        'description = "%(new)s"',
    ),
    ("pyproject.toml", r'name = "the .* authors"', 'name = "the %(new)s authors"'),
    ("README.md", r"^# (?i:%(old)s)$", "# %(new)s"),
    ("README.md", IMAGE, "%(new)s"),
    ("docs/**/*.md", IMAGE, "%(new)s"),
    ("docs/container.md", r"(job/|\s)%(old)s(?=\.sif|$)", r"\1%(new)s"),
    ("docs/index.md", r"^# (?i:%(old)s)$", "# %(new)s"),
    ("mkdocs.yml", r"^site_name: (?i:%(old)s)$", "site_name: %(new)s"),
    ("docker-compose.yml", IMAGE, "%(new)s"),
    (".env.example", IMAGE, "%(new)s"),
    ("scripts/image.sh", r"^(#   IMAGE_NAME +)%(image)s$", r"\1%(new)s"),
    ("scripts/image/build.sh", r"IMAGE_NAME:-%(image)s\}", "IMAGE_NAME:-%(new)s}"),
    ("scripts/image/compose.sh", IMAGE, "%(new)s"),
    ("scripts/sbom.py", r'"name": "%(image)s"', '"name": "%(new)s"'),
    ("scripts/env/ways.sh", r"--prompt %(old)s ", "--prompt %(new)s "),
    (".github/workflows/image.yml", IMAGE, "%(new)s"),
    (".devcontainer/devcontainer.json", r'"name": "%(image)s"', '"name": "%(new)s"'),
    ("environment.yml", r"^name: %(image)s$", "name: %(new)s"),
    ("environments/*/environment.yml", r"^name: %(image)s$", "name: %(new)s"),
    ("deploy/kubernetes.yaml", IMAGE, "%(new)s"),
    (
        "deploy/kubernetes.yaml",
        r"(^  name: |job-name: |subdomain: |rdzv-id=|/runs/)%(old)s(?![\w-])",
        r"\1%(new)s",
    ),
    ("deploy/kubernetes.yaml", r"=%(old)s-0\.%(old)s:", "=%(new)s-0.%(new)s:"),
    ("deploy/slurm.sh", IMAGE, "%(new)s"),
    ("deploy/slurm.sh", r"(--job-name=|--output=|[ -])%(old)s(?=$|-%%j|\.sif)", r"\1%(new)s"),
)
"""File, what is replaced, by what: in this order, each occurrence."""

PROJECT_LINES = """
# Compose's name for this project: containers and volumes bear it.
COMPOSE_PROJECT_NAME="""


class Refused(Exception):
    """The message says why nothing was changed."""


class Names(NamedTuple):
    """What the project and its image are called now."""

    project: str
    image: str
    version: str


def read(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"cannot read {path.relative_to(ROOT)}: {reason}") from None


def current_names() -> Names:
    """As the files have them; a project that was renamed by hand is found, too."""
    project = read(ROOT / "pyproject.toml")
    found = [
        re.search(r'^name = "([^"]+)"$', project, re.M),
        re.search(r"IMAGE_NAME:-([^}]+)\}", read(ROOT / "scripts/image/build.sh")),
        re.search(r'^version = "([^"]+)"$', project, re.M),
    ]
    if not all(found):
        raise Refused(
            "pyproject.toml has no name and version, or scripts/image/build.sh no IMAGE_NAME; "
            "bring them back with git, or rename by hand"
        )
    return Names(*(match.group(1) for match in found if match))


def check_name(name: str) -> None:
    """Refuse what one of the files could not bear, and names that mean something else here."""
    if not NAME.fullmatch(name):
        raise Refused(
            f"NAME={name!r} is no name for a project; expected small letters, digits and single "
            "hyphens, a letter first, at most 40 characters, such as my-project"
        )
    text = read(ROOT / "pyproject.toml").partition("dependencies = [")[2].partition("\n]")[0]
    taken = {"train", *re.findall(r'^\s*"([a-z0-9-]+)', text, re.M)}
    if name in taken:
        raise Refused(f"NAME={name} is the name of a package that this project uses; take another")


def renamed(names: Names, new: str) -> Dict[Path, str]:
    """The files that change, and their new text."""
    words = {"old": re.escape(names.project), "image": re.escape(names.image)}
    texts: Dict[Path, str] = {}
    for pattern, what, by in RULES:
        for path in sorted(ROOT.glob(pattern)):
            text = texts.get(path) or read(path)
            text, count = re.subn(what % words, by % {"new": new}, text, flags=re.M)
            if count:
                texts[path] = text
    env = ROOT / ".env.example"
    text = texts.get(env) or read(env)
    line = PROJECT_LINES.splitlines()[-1]
    if re.search(f"^{line}", text, re.M):
        text = re.sub(f"^{line}.*$", f"{line}{new}", text, flags=re.M)
    else:
        text += f"{PROJECT_LINES}{new}\n"
    texts[env] = text
    if names.project == TEMPLATE:
        log = ROOT / "CHANGELOG.md"
        head = read(log).partition("\n## ")[0]
        begun = f"- The project, from the template {TEMPLATE.capitalize()} {names.version}."
        texts[log] = f"{head}\n## [Unreleased]\n\n### Added\n\n{begun}\n"
    return texts


def pinned(way: str) -> Optional[str]:
    """The Makefile with this way as its default; None: it has it already."""
    text = read(ROOT / "Makefile")
    first, rest = text.split("\n", 1)
    if not re.fullmatch(r"ENV_FROM \?= \w+", first):
        raise Refused(
            f"the Makefile's first line is {first!r}, expected ENV_FROM ?= ...; write it there"
        )
    wanted = f"ENV_FROM ?= {way}"
    return None if first == wanted else f"{wanted}\n{rest}"


def refuse_dirty() -> None:
    """See that git can bring back what was here before."""
    if shutil.which("git") is None:
        raise Refused("git is not installed, and only with it can a rename be looked at and undone")
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--", "."]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["git status failed"])[0]
        raise Refused(
            f"this is no git repository that can be read ({said}); expected a clone, or begin one: "
            "git init && git add . && git commit -m begin"
        )
    if done.stdout:
        lines = done.stdout.splitlines()
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        changed = ", ".join(line[3:] for line in lines[:3])
        raise Refused(
            f"the tree has changes that are not committed ({changed}{more}); commit or stash them "
            "first, so that the rename stands alone"
        )


def write(path: Path, text: str) -> None:
    """Replace a file; it keeps its mode."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        shutil.copymode(path, new)
        os.replace(new, path)
    except OSError as error:
        raise Refused(
            f"cannot write {path.relative_to(ROOT)}: {error.strerror}; git checkout . brings back "
            "what was changed before"
        ) from None


def init(name: str, way: str) -> None:
    """Plan everything, then check the tree, then write."""
    if way not in WAYS:
        raise Refused(f"ENV_FROM={way} is not known; expected {', '.join(WAYS[:3])} or {WAYS[3]}")
    names, makefile = current_names(), pinned(way)
    if not name and makefile is None:
        raise Refused("NAME is missing; say make init NAME=my-project")
    if name:
        check_name(name)
    changes = renamed(names, name) if name and name != names.project else {}
    told = []
    if changes:
        anew = "; CHANGELOG.md begins anew" if ROOT / "CHANGELOG.md" in changes else ""
        told.append(f"The project is called {name} now, in {len(changes)} files{anew}.")
    if makefile is not None:
        changes[ROOT / "Makefile"] = makefile
        told.append(f"Makefile: ENV_FROM ?= {way}")
    if not changes:
        print(f"the project is called {name} already: nothing to do")
        return
    refuse_dirty()
    # pyproject.toml last: its name is what a second call goes by, should this one be cut off
    for path in sorted(changes, key=lambda path: path.name == "pyproject.toml"):
        write(path, changes[path])
    print("\n".join(told))
    if (ROOT / ".env").exists() and name:
        print(
            f".env is yours and stays: write IMAGE={name}:local and COMPOSE_PROJECT_NAME={name} "
            "there"
        )
    if name:
        print(
            "As they were: the package train, .venv, LICENSE (add a line of yours above its first)."
        )
    print("See it: git diff    Keep it: git commit -am 'A name of its own'    Then: make train")


def main() -> int:
    """Read NAME and ENV_FROM from the environment, where make puts them."""
    if sys.version_info < (3, 9):  # noqa: UP036  whatever python3 is
        print(f"error: python3 is {sys.version.split()[0]}; expected 3.9 or newer", file=sys.stderr)
        return 2
    try:
        init(os.environ.get("NAME", ""), os.environ.get("ENV_FROM") or "auto")
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; git checkout . brings back what was changed", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
