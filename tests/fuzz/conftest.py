"""The JPEG files that are made by hand lie with the tests of the transcoder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "data/jpeg"))
