"""`make lock-check`: the project's locks pass, and each kind of spoiled lock is found, alone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from loopback import ROOT, tools_python

CHANNELS = "environments/pytorch-channel"
LOCK, PIP = "conda-lock.yml", "locks/conda-pip.lock"


def check(root: Path) -> subprocess.CompletedProcess:
    command = [str(tools_python()), str(ROOT / "scripts" / "lock_check.py"), "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def project(tmp_path):
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    for name in ("environment.yml", LOCK, "virtual-packages.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, pattern: str, replacement) -> None:
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.S | re.M)
    assert count == 1, f"{pattern!r} is not in {path.name}: the test's spoiling no longer fits"
    path.write_text(text)


def entry(name: str) -> str:
    """A pattern for one package of a conda lock, its fields in groups before and after the url."""
    return rf"^- name: {re.escape(name)}\n.*?(?=^- name: |\Z)"


def test_the_project_s_locks_pass():
    done = check(ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    channels = (f"{CHANNELS}/conda-lock.yml", f"{CHANNELS}/conda-pip.lock")
    for name in (LOCK, PIP, *channels, "locks/floor.lock", "locks/current.lock"):
        assert re.search(rf"^{re.escape(name)}: \d+ packages", done.stdout, flags=re.M)


# file, pattern, replacement, kind of the one finding, what its text must name
SPOILED = {
    "a dependency is gone": (LOCK, entry("mpmath"), "", "unmet", "sympy needs mpmath"),
    "a version out of range": (
        LOCK,
        r"^- name: mpmath\n  version: \S+(.*?)mpmath-1\.3\.0-",
        r"- name: mpmath\n  version: 0.18.0\1mpmath-0.18.0-",
        "unmet",
        "sympy needs mpmath",
    ),
    "another build": (
        LOCK,
        r"libabseil-20250127\.1-cxx17_",
        "libabseil-20250127.1-cxx11_",
        "unmet",
        "libabseil * cxx17*",
    ),
    "a package twice": (
        LOCK,
        entry("six"),
        lambda found: found.group(0) * 2,
        "duplicate",
        "six is locked 2 times",
    ),
    "a malformed md5": (
        LOCK,
        r"(^- name: six\n.*?md5: )\S\S",
        r"\1",
        "hash",
        "six has a md5 that has 30 characters",
    ),
    "a malformed sha256": (
        LOCK,
        r"(^- name: six\n.*?sha256: )\S\S",
        r"\1zz",
        "hash",
        "six has a sha256 that has other signs",
    ),
    "no hash": (
        LOCK,
        r"(^- name: six\n.*?hash:)\n    md5: \S+\n    sha256: \S+",
        r"\1 {}",
        "hash",
        "six has no hash",
    ),
    "from defaults": (
        LOCK,
        r"https://conda\.anaconda\.org/conda-forge(/noarch/six-)",
        r"https://repo.anaconda.com/pkgs/main\1",
        "defaults",
        "six comes from defaults",
    ),
    "from a channel not asked for": (
        LOCK,
        r"conda\.anaconda\.org/conda-forge(/noarch/six-)",
        r"conda.anaconda.org/other\1",
        "channel",
        "six comes from other",
    ),
    "the file of another version": (
        LOCK,
        r"/six-1\.17\.0-",
        "/six-1.16.0-",
        "url",
        "six 1.17.0 has the file",
    ),
    "asked for and not locked": (
        "environment.yml",
        r"^- tqdm$",
        "- tqdm\n- opencv",
        "asked",
        "opencv",
    ),
    "locked at another version than asked for": (
        "environment.yml",
        r"^- numpy=1\.26$",
        "- numpy=2",
        "asked",
        "numpy=2",
    ),
    "a CPU build of pytorch in the channels": (
        f"{CHANNELS}/conda-lock.yml",
        r"pytorch-2\.1\.0-py3\.9_cuda11\.8_cudnn8\.7\.0_0",
        "pytorch-2.1.0-py3.9_cpu_0",
        "cuda",
        "py3.9_cpu_0",
    ),
    "mkl that breaks torch": (
        f"{CHANNELS}/environment.yml",
        r"^- mkl<2024\.1\n",
        "",
        "mkl",
        "mkl is 2024.2",
    ),
    "another machine": (
        "virtual-packages.yml",
        '__glibc: "2.28"',
        '__glibc: "2.12"',
        "unmet",
        "needs __glibc",
    ),
    "torch of another CUDA": (
        PIP,
        r"^torchaudio==2\.6\.0\+cu118",
        "torchaudio==2.6.0+cpu",
        "cuda",
        "torchaudio is 2.6.0+cpu, expected a +cu118 build",
    ),
    "in both locks": (
        PIP,
        r"^sortedcontainers==",
        "six==1.17.0 \\\\\n    --hash=sha256:" + "0" * 64 + "\n    # requires: nothing\n"
        "sortedcontainers==",
        "both",
        "six is also in conda-lock.yml",
    ),
    "a requirement that conda's version doesn't meet": (
        PIP,
        r"# requires: numpy<2\.1,>=1\.22",
        "# requires: numpy>=2",
        "unmet",
        "numba requires numpy>=2, the locks have 1.26.4",
    ),
    "a requirement that nothing meets": (
        PIP,
        r"# requires: braceexpand",
        "# requires: fire",
        "unmet",
        "webdataset requires fire, the locks have nothing of it",
    ),
    "a pip package that records nothing": (
        PIP,
        r"\n    # requires: nothing\ncrc32c",
        "\ncrc32c",
        "unrecorded",
        "braceexpand",
    ),
    "a wheel without a hash": (
        PIP,
        r"(^braceexpand==\S+) \\\n    --hash=\S+",
        r"\1",
        "hash",
        "braceexpand has no hash",
    ),
    "a short hash in the wheels lock": (
        "locks/requirements.lock",
        r"(^braceexpand==.*?sha256:)..",
        r"\1",
        "hash",
        "braceexpand",
    ),
    "another torch than asked for": (
        "locks/requirements.lock",
        r"^torch==2\.6\.0",
        "torch==2.5.1",
        "asked",
        "torch==2.6.0",
    ),
    "a floor that isn't": (
        "locks/floor.lock",
        r"^numpy==1\.26\.4",
        "numpy==1.25.0",
        "asked",
        "numpy==1.26.4",
    ),
    "a tool that isn't locked": (
        "locks/tools.in",
        r"\Z",
        "\nrich>=13\n",
        "asked",
        "rich",
    ),
    "the pip section at another version": (
        "environment.yml",
        r"- lmdb==3\.0\.0",
        "- lmdb==2.0.0",
        "pip-section",
        "lmdb==2.0.0",
    ),
    "the pip section without a package": (
        "environment.yml",
        r"^  - webdataset\S*\n",
        "",
        "pip-section",
        "webdataset is in conda-pip.in alone",
    ),
}
# spoilings that need more than one edit, so that nothing else is at fault
MORE = {
    "mkl that breaks torch": [
        (f"{CHANNELS}/conda-lock.yml", r"(^- name: mkl\n  version: )\S+", r"\g<1>2024.2.0"),
        (f"{CHANNELS}/conda-lock.yml", r"/mkl-2022\.1\.0-", "/mkl-2024.2.0-"),
        *[(f"{CHANNELS}/conda-lock.yml", r"^    mkl: [^*]*?$", "    mkl: '*'")] * 3,
    ],
    "torch of another CUDA": [
        ("locks/conda-pip.in", r"torchaudio==2\.6\.0\+cu118", "torchaudio==2.6.0+cpu"),
        ("environment.yml", r"torchaudio==2\.6\.0\+cu118", "torchaudio==2.6.0+cpu"),
    ],
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_lock_is_found(project, name):
    file, pattern, replacement, kind, text = SPOILED[name]
    edit(project / file, pattern, replacement)
    for other in MORE.get(name, ()):
        edit(project / other[0], *other[1:])
    done = check(project)
    print(done.stderr)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    findings = re.findall(r"^\[([a-z-]+)\] (\S+): (.*)$", done.stderr, flags=re.M)
    assert findings
    assert {found[0] for found in findings} == {kind}
    assert text in findings[0][2]
