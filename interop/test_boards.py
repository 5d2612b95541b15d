"""Boards: checked with the configuration, served to callers that may read their topics, taken by a reload."""

import json

from node import Node, tieline
from test_access import Guarded

PANEL = '[[panel]]\nkind = "value"\ntopics = ["{}"]\n'


def board(folder, name, *topics, more=""):
    (folder / "boards").mkdir(exist_ok=True)
    text = f'title = "Board {name}"\n{more}' + "".join(PANEL.format(topic) for topic in topics)
    (folder / "boards" / f"{name}.toml").write_text(text)


def names(answer):
    return [one["name"] for one in answer["boards"]]


def test_boards_are_served_and_reloaded(tmp_path):
    variable = '[[variable]]\nname = "feeder"\nvalues = ["f1", "f2"]\n'
    board(tmp_path, "one", "site/{feeder}/current", more=variable)
    with Node(tmp_path) as node:
        status, answer = node.request("/v1/boards")
        version = answer["boards"][0]["version"]
        assert (status, answer["boards"]) == (200, [{"name": "one", "title": "Board one", "version": version, "panels": 1, "origin": "configuration"}])
        panel = {"kind": "value", "title": "", "width": 3, "height": 2, "topics": ["site/{feeder}/current"]}
        whole = {
            "name": "one",
            "version": version,
            "origin": "configuration",
            "title": "Board one",
            "range": "1h",
            "variables": [{"name": "feeder", "label": "feeder", "values": ["f1", "f2"]}],
            "panels": [panel],
        }
        assert node.request("/v1/boards/one") == (200, whole)
        assert [node.request(f"/v1/boards/{name}")[0] for name in ["two", "One", "..%2Ftieline.toml"]] == [404, 400, 400]
        # A reload takes what has changed, and nothing of what is wrong.
        board(tmp_path, "one", "a/b")
        board(tmp_path, "two")
        node.reload()
        assert names(node.request("/v1/boards")[1]) == ["one", "two"]
        assert node.request("/v1/boards/one")[1]["version"] != version
        wrong = {"topics": "a/#", "variable": "a/{x}", "empty": ""}
        for why, topic in wrong.items():
            board(tmp_path, "two", topic)
            done = node.reload(check=False)
            assert done.returncode != 0 and "two.toml:4" in done.stdout + done.stderr, (why, done.stdout, done.stderr)
            assert node.request("/v1/boards/two")[1]["panels"] == []
            checked = tieline("config", "check", "--config", node.config, check=False)
            assert checked.returncode != 0 and "two.toml:4" in checked.stdout + checked.stderr
        for name in ["one", "two"]:
            (tmp_path / "boards" / f"{name}.toml").unlink()
        node.reload()
        assert node.request("/v1/boards") == (200, {"boards": []}) and node.request("/v1/boards/one")[0] == 404


def test_who_may_read_no_topic_of_a_board_does_not_see_it(tmp_path):
    board(tmp_path, "mine", "site/pump", "other/x")
    board(tmp_path, "other", "other/x")
    board(tmp_path, "plain")
    variable = '[[variable]]\nname = "place"\nvalues = ["site", "other"]\n'
    board(tmp_path, "some", "{place}/pump", more=variable)
    board(tmp_path, "none", "other/{place}", more=variable)
    with Guarded(tmp_path) as node:

        def seen(user):
            status, text = node.ask("/v1/boards", user=user)
            assert status == 200, text
            return names(json.loads(text))

        assert seen("anna") == ["mine", "plain", "some"]
        assert seen("boss") == ["mine", "none", "other", "plain", "some"]
        assert [node.ask(f"/v1/boards/{name}", user="anna")[0] for name in ["mine", "other", "none", "some"]] == [200, 404, 404, 200]
        assert node.ask("/v1/boards")[0] == 401 and node.ask("/v1/boards/mine")[0] == 401
