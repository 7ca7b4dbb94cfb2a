"""Tests of packing end processes, never the power: they need not wait for the disk."""

import os

import pytest

from train.pack.writers import folder, lmdb_writer


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda descriptor: None)
    patch.setattr(folder, "_sync_file_system", lambda path: None)
    patch.setattr(lmdb_writer, "SYNC", False)
    yield
    patch.undo()
