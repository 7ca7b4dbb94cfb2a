"""Packages that lie beside the environment: `make test-interfaces` installs and names them."""

import os
import sys
import warnings

import pytest


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """The module `datasets`, with lightning and accelerate importable; nothing asks a server."""
    folder = os.environ.get("INTERFACES", "")
    if not folder:
        pytest.skip("datasets, lightning and accelerate are not installed: make test-interfaces")
    before = dict(os.environ)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ[name] = "1"
    os.environ["HF_HOME"] = str(tmp_path_factory.mktemp("hugging-face"))
    sys.path.append(folder)  # behind the environment, whose versions hold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of at import is theirs
        import datasets
        import lightning

        assert lightning.__version__
    yield datasets
    sys.path.remove(folder)
    os.environ.clear()
    os.environ.update(before)
