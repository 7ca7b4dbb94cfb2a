"""scripts/env.sh docs: a small folder from a lock of its own, apart from the environment."""

import shutil


def test_it_is_made_once_and_removed(checkout):
    shutil.copy(checkout.lock, checkout.folder / "locks/docs.lock")
    result = checkout.run("docs")
    assert result.code == 0, result
    assert checkout.marker(".docs-env")["state"] == "ready"
    assert not (checkout.folder / ".venv").exists()
    found = list(checkout.folder.glob(".docs-env/lib/python3*/site-packages/torch-*.dist-info"))
    assert len(found) == 1
    (checkout.folder / ".docs-env/kept").touch()
    assert checkout.run("docs").code == 0
    assert (checkout.folder / ".docs-env/kept").exists()  # nothing was made again
    (checkout.folder / "build/site").mkdir(parents=True)
    assert checkout.run("clean").code == 0
    assert not (checkout.folder / ".docs-env").exists()
    assert not (checkout.folder / "build/site").exists()


def test_a_wrong_hash_ends_it_and_the_next_run_repairs_it(checkout):
    checkout.write_lock("torch==2.6.0", spoil=True)
    shutil.copy(checkout.lock, checkout.folder / "locks/docs.lock")
    result = checkout.run("docs")
    assert result.code == 2, result
    assert "cannot install the docs" in result.errors[0]
    checkout.write_lock("torch==2.6.0")
    shutil.copy(checkout.lock, checkout.folder / "locks/docs.lock")
    assert checkout.run("docs").code == 0
    assert checkout.marker(".docs-env")["state"] == "ready"


def test_a_foreign_folder_is_left_alone(checkout):
    (checkout.folder / ".docs-env").mkdir()
    (checkout.folder / ".docs-env/mine").touch()
    shutil.copy(checkout.lock, checkout.folder / "locks/docs.lock")
    result = checkout.run("docs")
    assert result.code == 2, result
    assert "remove or rename it" in result.errors[0]
    assert "=DIR" not in result.errors[0]
    assert (checkout.folder / ".docs-env/mine").exists()
