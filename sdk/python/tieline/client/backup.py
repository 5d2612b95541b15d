"""Backups: archives of the data folder of a node, compared with their checksums. docs/backup.md has the format."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from dataclasses import dataclass
from datetime import datetime

from .errors import TielineError
from .values import instant

MANIFEST = "backup.json"
MANIFEST_BYTES_MAX = 1 << 30
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup: when it was made, how many files it has, and how many bytes they have together."""

    time: datetime
    files: int
    bytes: int


def check_backup(file: str | os.PathLike[str]) -> Backup:
    """Compares an archive with its checksums, as ``tieline restore --check``. ``TielineError`` says what is wrong with it."""
    found: list[tuple[str, int, str]] = []
    try:
        with tarfile.open(file, "r|") as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                if content is None:
                    raise _unusable(f"the entry {entry.name!r} is no file")
                if entry.name == MANIFEST:
                    return _compared(found, content.read(MANIFEST_BYTES_MAX))
                checksum, length = hashlib.sha256(), 0
                while piece := content.read(PIECE):
                    checksum.update(piece)
                    length += len(piece)
                found.append((entry.name, length, checksum.hexdigest()))
    except (tarfile.TarError, EOFError) as error:
        raise _unusable(f"{error}") from error
    raise _unusable(f"it has no {MANIFEST}")


def _compared(found: list[tuple[str, int, str]], manifest: bytes) -> Backup:
    try:
        told = json.loads(manifest)
        stored = [(file["name"], file["bytes"], file["sha256"]) for file in told["files"]]
        time = instant(told["time"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(f"its {MANIFEST} cannot be read") from error
    if stored != found:
        name = next((has[0] for has, was in zip(found, stored) if has != was), f"the list of {MANIFEST}")
        raise _unusable(f"{name} is not what was stored")
    return Backup(time, len(stored), sum(length for _, length, _ in stored))


def _unusable(why: str) -> TielineError:
    return TielineError(f"the backup cannot be used: {why}")
