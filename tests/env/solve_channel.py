"""Index a loopback channel's folder, solve from its URL, write a conda-lock.yml.

Run by the Python that has py-rattler:

solve_channel.py FOLDER URL LOCK SPEC...
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import rattler
import yaml
from rattler.index import index_fs


async def solve(url: str, specs: list) -> list:
    with tempfile.TemporaryDirectory() as cache:
        return await rattler.solve(
            [url],
            specs,
            platforms=["linux-64", "noarch"],
            gateway=rattler.Gateway(cache_dir=cache),
            virtual_packages=rattler.VirtualPackage.detect(),
        )


def as_package(record: rattler.RepoDataRecord) -> dict:
    depends = [need.split(" ", 1) for need in record.depends]
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "manager": "conda",
        "platform": "linux-64",
        "dependencies": {need[0]: need[1] if need[1:] else "*" for need in depends},
        "url": record.url,
        "hash": {"md5": record.md5.hex(), "sha256": record.sha256.hex()},
        "category": "main",
        "optional": False,
    }


def main(folder: str, url: str, lock: str, *specs: str) -> None:
    asyncio.run(index_fs(Path(folder), write_zst=False, write_shards=False))
    packages = [as_package(record) for record in asyncio.run(solve(url, list(specs)))]
    text = yaml.safe_dump({"version": 1, "metadata": {}, "package": packages}, sort_keys=False)
    Path(lock).write_text(text)


main(*sys.argv[1:])
