"""The checkout that the tests of `scripts/env.sh` work in."""

import checkout as checkouts
import loopback
import pytest


@pytest.fixture
def checkout(tmp_path):
    if checkouts.tools_folder() is None:
        pytest.skip(
            "no .tools here: scripts/env.sh is NOT tested; run make test, or name one with TOOLS="
        )
    index = tmp_path / "index"
    index.mkdir()
    folder = tmp_path / "a checkout"  # with a blank: people have such folders
    folder.mkdir()
    with loopback.serve(index) as server:
        yield checkouts.Checkout(folder, server, index)
