"""A reference training package whose loader is already tuned.

See docs/architecture.md for the line.
"""

__version__ = "0.1.0"
