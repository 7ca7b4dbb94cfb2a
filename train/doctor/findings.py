"""What an examination found beside the verdict: each with its evidence and its mend."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing to know.

    Attributes:
        what: a short name.
        serious: it breaks runs or costs much; else good to know.
        evidence: what was seen, with numbers.
        mend: what to do; '' where there is nothing to do.
    """

    what: str
    serious: bool
    evidence: str
    mend: str
