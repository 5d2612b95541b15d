"""Single-line diagrams: drawn and checked by the command line, served to callers that may read their topics, taken by a reload."""

import json
import urllib.error
import urllib.request

from node import Node, tieline
from test_access import Guarded

SVG = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'
BAYS = """\
title = "Station"

[[busbar]]
name = "b1"
voltage = "11 kV"

[[bay]]
name = "incomer"
from = "b1"
up = true
item = [{ kind = "breaker", topic = "site/q0" }, { kind = "line", source = true }]

[[bay]]
name = "feeder1"
from = "b1"
item = [
    { kind = "disconnector", topic = "site/q1" },
    { kind = "ct", values = ["site/current"] },
    { kind = "earth-switch", topic = "site/q8" },
    { kind = "load" },
]
"""


def diagrams(folder, **files):
    (folder / "diagrams").mkdir(exist_ok=True)
    for name, svg in files.items():
        (folder / "diagrams" / f"{name}.svg").write_text(svg)


def fetch(node, name, tag=None):
    """The status of a diagram, its headers and its text."""
    headers = {"If-None-Match": tag} if tag else {}
    asked = urllib.request.Request(f"http://{node.http}/v1/diagrams/{name}", headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def names(answer):
    return [diagram["name"] for diagram in answer["diagrams"]]


def test_bays_are_drawn_and_files_are_checked(tmp_path):
    bays, svg = tmp_path / "station.toml", tmp_path / "station.svg"
    bays.write_text(BAYS)
    tieline("diagram", "new", bays, "-o", svg)
    assert tieline("diagram", "new", bays).stdout == svg.read_text()
    assert f"{svg}: ok, 4 topics, 3 switches, 3 nodes, 1 source" in tieline("diagram", "check", svg).stdout
    checked = json.loads(tieline("diagram", "check", svg, "--json").stdout)
    assert checked["ok"] and checked["files"][0]["switches"] == 3
    wrong = tmp_path / "wrong.svg"
    wrong.write_text(SVG.format('\n<g onclick="x"/>\n<script>alert(1)</script>'))
    done = tieline("diagram", "check", svg, wrong, check=False)
    assert done.returncode == 1 and "ok" in done.stdout
    for words in ["wrong.svg:2", "no attribute that handles an event", "wrong.svg:3", "no script"]:
        assert words in done.stderr, done.stderr
    bays.write_text(BAYS.replace('from = "b1"', 'from = "b2"').replace("disconnector", "discon"))
    done = tieline("diagram", "new", bays, check=False)
    assert done.returncode != 0 and "station.toml:17" in done.stderr and "disconnector" in done.stderr, done.stderr


def test_diagrams_are_served_and_reloaded(tmp_path):
    title = "<title>One &amp; only</title>"
    diagrams(tmp_path, one=SVG.format(title + '<text data-topic="a/b"/><text data-topic="a/c"/>'))
    with Node(tmp_path) as node:
        status, answer = node.request("/v1/diagrams")
        assert status == 200 and answer["diagrams"] == [
            {"name": "one", "title": "One & only", "version": answer["diagrams"][0]["version"], "topics": 2}
        ]
        status, headers, text = fetch(node, "one")
        tag = headers["ETag"]
        assert (status, headers["Content-Type"], tag) == (200, "image/svg+xml", f'"{answer["diagrams"][0]["version"]}"')
        assert text == (tmp_path / "diagrams/one.svg").read_text()
        # A browser that opens the file by itself runs nothing in it either.
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert fetch(node, "one", tag)[0] == 304 and fetch(node, "one", f'"x", W/{tag}')[0] == 304
        assert fetch(node, "one", '"x"')[0] == 200
        assert [fetch(node, name)[0] for name in ["two", "One", "..%2Ftieline.toml"]] == [404, 400, 400]
        assert "One & only" in tieline("diagram", "list", "--http", node.http).stdout
        # A reload takes what has changed, and nothing of what is wrong.
        diagrams(tmp_path, one=SVG.format('<text data-topic="a/c"/>'), two=SVG.format(""))
        node.reload()
        assert names(node.request("/v1/diagrams")[1]) == ["one", "two"]
        assert fetch(node, "one", tag)[0] == 200
        hostile = {
            "script": "<script>alert(1)</script>",
            "event": '<rect onload="alert(1)"/>',
            "foreign": "<foreignObject/>",
            "outside": '<use href="http://example.org/x.svg#a"/>',
            "topic": '<text data-topic="a/#"/>',
        }
        for name, inner in hostile.items():
            diagrams(tmp_path, two=SVG.format(f"\n{inner}"))
            done = node.reload(check=False)
            assert done.returncode != 0 and "two.svg:2" in done.stdout + done.stderr, (name, done.stdout, done.stderr)
            assert fetch(node, "two")[2] == SVG.format("")
            checked = tieline("config", "check", "--config", node.config, check=False)
            assert checked.returncode != 0 and "two.svg:2" in checked.stdout + checked.stderr
        for name in ["one", "two"]:
            (tmp_path / "diagrams" / f"{name}.svg").unlink()
        node.reload()
        assert node.request("/v1/diagrams") == (200, {"diagrams": []}) and fetch(node, "one")[0] == 404


def test_who_may_read_no_topic_of_a_diagram_does_not_see_it(tmp_path):
    diagrams(
        tmp_path,
        mine=SVG.format('<text data-topic="site/pump"/><text data-topic="other/x"/>'),
        other=SVG.format('<text data-topic="other/x"/>'),
        plain=SVG.format("<path/>"),
    )
    with Guarded(tmp_path) as node:

        def seen(user):
            status, text = node.ask("/v1/diagrams", user=user)
            assert status == 200, text
            return names(json.loads(text))

        assert (seen("anna"), seen("boss")) == (["mine", "plain"], ["mine", "other", "plain"])
        assert [node.ask(f"/v1/diagrams/{name}", user="anna")[0] for name in ["mine", "other", "plain"]] == [200, 404, 200]
        assert node.ask("/v1/diagrams")[0] == 401 and node.ask("/v1/diagrams/mine")[0] == 401
