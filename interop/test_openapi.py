"""The API as its document says it: a client that a generator makes of it, and requests that a tester makes up."""

import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from node import tieline

USERS = """
[access]
users = "users.toml"
loopback = "closed"
"""
#: Streams do not end, and who logs out is a stranger for the rest.
LEFT_OUT = ["/v1/live", "/v1/history/tail", "/logout"]


def tool(name):
    """A program that the requirements installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def operations(document):
    """Every operation's name."""
    return {op["operationId"] for path in document["paths"].values() for op in path.values()}


def test_a_generator_makes_a_whole_client(start_node, tmp_path, monkeypatch):
    node = start_node()
    _, document = node.request("/v1/openapi.json")
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    words = ["generate", "--path", tmp_path / "openapi.json", "--output-path", tmp_path / "made", "--meta", "none"]
    # What it makes is not for a reader: nothing tidies it.
    (tmp_path / "generator.yml").write_text("post_hooks: []\n")
    command = [tool("openapi-python-client"), *map(str, words), "--config", str(tmp_path / "generator.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout + done.stderr

    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("made")
    files = {file.stem for file in (tmp_path / "made" / "api" / "default").glob("*.py")} - {"__init__"}
    assert len(files) == len(operations(document)), (files, operations(document))
    client = made.Client(base_url=f"http://{node.http}")

    def call(name, *words, **members):
        return importlib.import_module(f"made.api.default.{name}").sync_detailed(*words, client=client, **members)

    def value(data):
        return importlib.import_module("made.types").File(payload=io.BytesIO(data))

    assert call("put_topic", "site/limit", body=value(b"60"), if_none_match="*").status_code == 200
    assert call("put_topic", "site/limit", body=value(b"70"), if_none_match="*").status_code == 412
    assert call("topic", "site/limit").parsed.value == 60
    assert [topic.topic for topic in call("topics", filter_="site/#").parsed.topics] == ["site/limit"]
    assert call("remove_topic", "site/limit", if_match="*").status_code == 200
    assert call("topic", "site/limit").status_code == 404
    assert call("healthz").parsed.status == "ok"


@pytest.mark.parametrize("users", [False, True], ids=["open", "users"])
def test_nothing_is_answered_that_is_not_documented(start_node, tmp_path, users):
    logins = []
    if users:
        words = ["access", "user", "add", "engineer", "--users", tmp_path / "users.toml", "--role", "ENGINEER"]
        tieline(*words, input="a long password\n")
        logins = ["--auth", "engineer:a long password"]
    node = start_node(more=USERS if users else "")
    # Where nobody has to log in, whatever is sent to the login leads to the console.
    left_out = [word for path in LEFT_OUT + ([] if users else ["/login"]) for word in ("--exclude-path", path)]
    bounds = ["--max-examples", "8", "--phases", "examples,coverage,fuzzing", "--seed", "1815", "--request-timeout", "20"]
    url = f"http://{node.http}/v1/openapi.json"
    checks = ["--exclude-checks", "positive_data_acceptance,unsupported_method"]
    command = [tool("st"), "run", url, *left_out, *bounds, *checks, *logins]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert node.alive()
