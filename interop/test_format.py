"""The number of the data format: folders and backups of a newer release are refused, those of an older one are taken."""

import hashlib
import io
import json
import tarfile

import pytest
from node import BINARY, Node, tieline
from processes import Lines

NEWER = json.dumps({"format": 2, "needs": "0.7.0"})
NEEDED = 'format 2, expected 1 at most: it needs tieline "0.7.0" or newer'


def digest(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def data(tmp_path):
    with Node(tmp_path) as node:
        node.set("plant/a", "7")
    return node.data


def test_a_folder_of_a_newer_release_is_refused_and_not_changed(tmp_path, data):
    assert json.loads((data / "format").read_text()) == {"format": 1, "needs": "0.2.0"}
    (data / "format").write_text(NEWER)
    before = digest(data)
    refused = Lines([BINARY, "run", "--data", data, "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"])
    assert refused.process.wait(60) == 1, refused.said()
    refused.stop()
    assert NEEDED in refused.said()
    for words in (["history", "repair", "--data", data, "--yes"], ["backup", "--data", data, "-o", tmp_path / "no.tar"]):
        done = tieline(*words, check=False)
        assert done.returncode != 0 and NEEDED in done.stderr, (words, done.stderr)
    assert digest(data) == before and not (tmp_path / "no.tar").exists()


def test_a_folder_of_an_older_release_is_taken(tmp_path, data):
    (data / "format").unlink()
    with Node(tmp_path, data=data) as node:
        assert node.get("plant/a") is not None
    assert json.loads((data / "format").read_text())["format"] == 1


def rewritten(archive, change):
    """The archive with another manifest."""
    out = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as new:
        for entry in old.getmembers():
            content = old.extractfile(entry).read()
            if entry.name == "backup.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
                entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    changed = archive.with_name("changed.tar")
    changed.write_bytes(out.getvalue())
    return changed


def test_a_backup_of_a_newer_release_is_refused(tmp_path, data):
    archive = tmp_path / "plant.tar"
    tieline("backup", "--data", data, "-o", archive)
    with tarfile.open(archive) as opened:
        manifest = json.load(opened.extractfile("backup.json"))
        format_file = opened.extractfile("format").read()
    assert (manifest["format"], manifest["needs"]) == (1, "0.2.0")
    (entry,) = [file for file in manifest["files"] if file["name"] == "format"]
    assert entry["sha256"] == hashlib.sha256(format_file).hexdigest()

    newer = rewritten(archive, lambda manifest: manifest.update(json.loads(NEWER)))
    for words in (["--data", tmp_path / "restored"], ["--check"]):
        done = tieline("restore", newer, *words, check=False)
        assert done.returncode != 0 and NEEDED in done.stderr, done.stderr
    assert not (tmp_path / "restored").exists()

    older = rewritten(archive, lambda manifest: [manifest.pop(name) for name in ("format", "needs")])
    tieline("restore", older, "--data", tmp_path / "restored")
    with Node(tmp_path, data=tmp_path / "restored") as node:
        assert node.get("plant/a") is not None
