"""Makes what the tests of loading and packing share importable here."""

import sys
from pathlib import Path

for folder in ("data", "pack"):
    sys.path.append(str(Path(__file__).parents[1] / folder))
