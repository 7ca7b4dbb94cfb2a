"""These tests use files of the folders beside and above, also when they run alone."""

import sys
from pathlib import Path

_DATA = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_DATA / "jpeg"), str(_DATA)]
