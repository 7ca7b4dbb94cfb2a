"""The side-by-side measurement behind `benchmarks/loaders.py`.

`measure.py` runs inside every arm, in whatever environment that arm has: standard library alone,
Python 3.9 and newer. The rest runs in the project's environment.
"""
