"""Opening shards by address: files, and http with retries that go on where a connection broke.

WebDataset's own opener hands http addresses to a shell; this one does not.
"""

import http.client
import itertools
import math
import re
import time
import urllib.error
import urllib.request
from typing import Any, List, Sequence, Union
from urllib.parse import unquote, urlsplit

from train.errors import ConfigError

MOST_SHARDS = 1_000_000
RETRIES = 4
_PAUSE_S = 0.5
_BY_PROGRAM = ("gs", "htgs", "ais", "sftp", "ftps", "scp")
_RANGE = re.compile(r"\{([-+]?\d{1,18})\.\.([-+]?\d{1,18})(?=\.\.|\})")
_NOT_IN_ADDRESSES = re.compile(r"['\"`\\\s\x00-\x1f\x7f]")


def expand(addresses: Union[str, Sequence[str]], trust: bool) -> List[str]:
    """Write out braces (`shard-{000000..000009}.tar`) and check every address.

    Args:
        addresses: one or several; http, https, file, a path, or what webdataset has a program for
            (gs, ais, sftp ...).
        trust: allow `pipe:`, which runs a command.

    Raises:
        ConfigError: an address that is not allowed, or none at all.
    """
    import braceexpand  # webdataset's own

    expanded: List[str] = []
    too_many = ConfigError(f"{addresses!r} are more than {MOST_SHARDS:,} shards")
    for address in [addresses] if isinstance(addresses, str) else addresses:
        # braceexpand lists a whole range before it gives the first of it.
        ends = [(int(first), int(last)) for first, last in _RANGE.findall(address)]
        if math.prod(abs(last - first) + 1 for first, last in ends) > MOST_SHARDS:
            raise too_many
        if address.startswith("pipe:"):  # braces of a command are the shell's
            expanded.append(address)
            continue
        try:
            left = MOST_SHARDS + 1 - len(expanded)
            expanded += itertools.islice(braceexpand.braceexpand(address), left)
        except ValueError as error:
            raise ConfigError(f"{address!r}: {error}") from None
    if not expanded:
        raise ConfigError("no shards: expected the address of at least one")
    if len(expanded) > MOST_SHARDS:
        raise too_many
    for address in expanded:
        _check(address, trust)
    return expanded


def _check(address: str, trust: bool) -> None:
    scheme = _scheme(address)
    if scheme == "pipe":
        if not trust:
            raise ConfigError(
                f"{address!r} would run a command; if you wrote it yourself, allow it with "
                "trust=True"
            )
    elif scheme in _BY_PROGRAM:
        if _NOT_IN_ADDRESSES.search(address):  # it is put between quotes for a shell
            raise ConfigError(f"{address!r} has characters that an address can't have")
    elif scheme not in ("", "file", "http", "https"):
        raise ConfigError(
            f"{address!r}: unknown kind of address {scheme!r}, expected http, https, file, a path "
            f"or {', '.join(_BY_PROGRAM)}"
        )


def _scheme(address: str) -> str:
    try:
        return urlsplit(address).scheme.lower()
    except ValueError as error:
        raise ConfigError(f"{address!r} is no address: {error}") from None


def open_stream(address: str, timeout_s: float) -> Any:
    """Open a shard for reading from front to back; the caller closes it.

    Args:
        address: checked by `expand`.
        timeout_s: longest silence of a server.

    Raises:
        OSError: it can't be opened.
    """
    scheme = _scheme(address)
    if scheme in ("http", "https"):
        return _HttpStream(address, timeout_s)
    if scheme == "":
        return open(address, "rb")
    if scheme == "file":
        return open(unquote(urlsplit(address).path), "rb")
    from webdataset.gopen import gopen

    return gopen(address)


class _HttpStream:
    """A file on a web server; a broken connection is taken up again where it broke."""

    def __init__(self, address: str, timeout_s: float):
        self._address, self._timeout = address, timeout_s
        self._position = 0
        self._failures = 0
        self._response: Any = None
        self._left = -1  # bytes still to come; -1: the server did not say
        while self._response is None:
            try:
                self._connect()
            except (OSError, http.client.HTTPException) as error:
                self._pause(error)

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; b'' at the end."""
        while True:
            try:
                if self._response is None:
                    self._connect()
                data = self._response.read(size if size >= 0 else None)
                if data or size == 0 or self._left <= 0:
                    self._position += len(data)
                    self._left -= len(data) if self._left > 0 else 0
                    if data:
                        self._failures = 0
                    return data
                raise OSError(f"the connection ended {self._left:,} bytes before the file's end")
            except (OSError, http.client.HTTPException) as error:
                self.close()
                self._pause(error)

    def close(self) -> None:
        """End the connection."""
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _connect(self) -> None:
        headers = {"Range": f"bytes={self._position}-"} if self._position else {}
        request = urllib.request.Request(self._address, headers=headers)
        response = urllib.request.urlopen(request, timeout=self._timeout)
        if self._position and response.status != 206:
            response.close()
            raise _Final("the connection broke, and the server can't go on in the middle of a file")
        self._response = response
        self._left = response.length if response.length is not None else -1

    def _pause(self, error: Exception) -> None:
        """Wait before the next try, or give up."""
        self._failures += 1
        reason = str(getattr(error, "reason", "") or error or type(error).__name__)
        final = isinstance(error, _Final)
        if isinstance(error, urllib.error.HTTPError):
            reason = f"HTTP {error.code} {error.reason}"
            final = error.code < 500 and error.code not in (408, 429)
            error.close()
        if final or self._failures > RETRIES:
            raise OSError(reason) from None
        time.sleep(_PAUSE_S * 2 ** (self._failures - 1))


class _Final(OSError):
    """Another try would not help."""
