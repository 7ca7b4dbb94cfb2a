"""Notebooks run from the first cell to the last, and are stored without what came out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_stored_without_output(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert len(cells) < 25
    for cell in cells:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end(notebook, tmp_path):
    """It writes its data beside its own folder: so a copy runs in a folder of its own."""
    (tmp_path / "notebooks").mkdir()
    copy = tmp_path / "notebooks" / notebook.name
    copy.write_text(notebook.read_text())
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
    done = subprocess.run(
        [*command, "--ExecutePreprocessor.timeout=240", str(copy)],
        cwd=copy.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_WAIT_POLICY": "PASSIVE",
            "JUPYTER_RUNTIME_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    code = [c for c in json.loads(copy.read_text())["cells"] if c["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
