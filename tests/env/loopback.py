"""A small conda channel and a small wheel index, made in a folder and served on 127.0.0.1.

The channel's Python is the one that runs the tests (its program and standard library), so what is
installed from it really runs: activation, entry points, pip. Nothing here leaves this machine.
"""

import base64
import functools
import hashlib
import http.server
import io
import json
import os
import sys
import sysconfig
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union

ROOT = Path(__file__).resolve().parents[2]
Content = Union[bytes, Path]
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
# left out of the packed standard library: large, and nothing here imports them
_SKIPPED = {
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
}
_SKIPPED |= {"site-packages", "dist-packages"}


def tools_python() -> Path:
    """The Python with py-rattler that `scripts/env.sh tools` makes; TOOLS names another."""
    path = Path(os.environ.get("TOOLS") or ROOT / ".tools", "bin", "python")
    assert path.exists(), f"{path} is missing: run scripts/env.sh tools first"
    return path


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files; a path in the server's `stalled` set is accepted and never answered."""

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if name in self.server.stalled:
            self.server.requests.append(self.path)
            self.server.released.wait(60)
            return
        try:
            super().do_GET()
        except ConnectionError:  # the client left: it met a fault that a test made elsewhere
            self.close_connection = True

    def log_message(self, *args) -> None:
        self.server.requests.append(self.path)


@contextmanager
def serve(folder: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    """Serve `folder` on a free port of 127.0.0.1; `server.url` has the address."""
    handler = functools.partial(_Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    server.requests, server.stalled, server.released = [], set(), threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


def _bytes(content: Content) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def conda_package(
    channel: Path,
    name: str,
    version: str,
    build: str = "0",
    files: Optional[Mapping[str, Content]] = None,
    depends: Sequence[str] = (),
    noarch: Optional[str] = None,
    entry_points: Sequence[str] = (),
    prefixes: Optional[Mapping[str, Tuple[str, str]]] = None,
) -> Path:
    """Write one `.tar.bz2` package into a channel folder.

    Args:
        channel: the channel's folder; the package lies in its `linux-64` or `noarch`.
        name: the package's name.
        version: its version.
        build: its build string, ending in the build number.
        files: path in the prefix -> bytes, or a file to copy with its mode.
        depends: match specs.
        noarch: `python`, `generic` or None.
        entry_points: for example `hello = hello:main`.
        prefixes: path -> (placeholder, `text` or `binary`): files that hold a build prefix.

    Returns:
        The package's path.
    """
    files, prefixes = files or {}, prefixes or {}
    subdir = "noarch" if noarch else "linux-64"
    index = {
        "name": name,
        "version": version,
        "build": build,
        "depends": list(depends),
        "subdir": subdir,
    }
    index["build_number"] = int(build.rsplit("_", 1)[-1])
    members: Dict[str, Content] = dict(files)
    if noarch:
        index["noarch"] = noarch
        link = {"package_metadata_version": 1, "noarch": {"type": noarch}}
        link["noarch"]["entry_points"] = list(entry_points)
        members["info/link.json"] = json.dumps(link).encode()
    paths = []
    for path, content in files.items():
        data = _bytes(content)
        entry = {"_path": path, "path_type": "hardlink", "size_in_bytes": len(data)}
        entry["sha256"] = hashlib.sha256(data).hexdigest()
        if path in prefixes:
            entry["prefix_placeholder"], entry["file_mode"] = prefixes[path]
        paths.append(entry)
    members["info/index.json"] = json.dumps(index).encode()
    members["info/paths.json"] = json.dumps({"paths_version": 1, "paths": paths}).encode()
    target = channel / subdir / f"{name}-{version}-{build}.tar.bz2"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:bz2", compresslevel=1) as archive:
        for path, content in members.items():
            info = tarfile.TarInfo(path)
            info.mode = 0o755 if path.startswith("bin/") else 0o644
            data = _bytes(content)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return target


def python_files() -> Dict[str, Content]:
    """The running interpreter's program and standard library: path in a prefix -> file."""
    library = Path(
        sysconfig.get_paths(vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})[
            "stdlib"
        ]
    )
    program = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    files: Dict[str, Content] = {
        "bin/python": program,
        "bin/python3": program,
        f"bin/{PYTHON}": program,
    }
    for folder, names, leaves in os.walk(library):
        names[:] = [n for n in names if n not in _SKIPPED and not n.startswith("config-")]
        for leaf in leaves:
            path = Path(folder, leaf)
            files[f"lib/{PYTHON}/{path.relative_to(library)}"] = path
    files[f"lib/{PYTHON}/site-packages/README.txt"] = b"packages are installed here\n"
    return files


def pip_files() -> Dict[str, Content]:
    """pip as installed beside the tests, not compiled: path in a noarch package -> file."""
    import pip

    package = Path(pip.__file__).parent
    return {
        f"site-packages/{path.relative_to(package.parent)}": path
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def wheel(folder: Path, name: str, version: str, module: str, requires: Sequence[str] = ()) -> str:
    """Write a pure wheel with one module into `folder`; returns its sha256."""
    stem = f"{name}-{version}"
    members = {f"{name}.py": module.encode()}
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    members[f"{stem}.dist-info/METADATA"] = metadata.encode()
    members[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{stem}.dist-info/RECORD"
    lines = []
    for path, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    members[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    target = folder / f"{stem}-py3-none-any.whl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for path, data in members.items():
            archive.writestr(path, data)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def simple_index(folder: Path) -> None:
    """Write `simple/<name>/index.html` pages for the wheels in `folder/files`."""
    by_name: Dict[str, list] = {}
    for path in sorted((folder / "files").glob("*.whl")):
        name = path.name.split("-")[0].lower().replace("_", "-")
        by_name.setdefault(name, []).append(path)
    for name, paths in by_name.items():
        page = folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        links = ""
        for path in paths:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            links += f'<a href="../../files/{path.name}#sha256={digest}">{path.name}</a>\n'
        page.write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")
