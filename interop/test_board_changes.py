"""Boards that are made, changed and removed while a node runs: over HTTP, by the command line, and what a crash, a full disk or another
editor leaves."""

import json
import threading
import tomllib

import httpx
import pytest
from node import Node, tieline
from test_access import Guarded
from test_boards import board
from waiting import until

A, B = 'title = "A"\n', 'title = "B"\n\n[[panel]]\nkind = "text"\ntext = "b"\n'
WRONG = 'title = "A"\n[[panel]]\nkind = "test"\n'
ABSENT, PRESENT = {"If-None-Match": "*"}, {"If-Match": "*"}
OLD = {"If-Match": '"0000000000000000"'}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boards")
    board(folder, "plant", "a/b")
    with Node(folder) as running:
        yield running
        running.alive()


def api(node, **more):
    return httpx.Client(base_url=f"http://{node.http}", timeout=30, **more)


def put(client, name, text, condition, **query):
    return client.put(f"/v1/boards/{name}", content=text, headers=condition, params=query)


def source(client, name):
    answer = client.get(f"/v1/boards/{name}", params={"format": "toml"})
    return answer.text if answer.status_code == 200 else None


def reset(client, text):
    """A board "x" with this text; without one, none."""
    client.delete("/v1/boards/x", headers=PRESENT)
    if text is not None:
        assert put(client, "x", text, ABSENT).status_code == 200


#: What there is, the method, the condition, the body, the query, and the status.
CHANGES = [
    (None, "PUT", ABSENT, A, {}, 200),
    (None, "PUT", PRESENT, A, {}, 412),
    (None, "PUT", OLD, A, {}, 412),
    (None, "PUT", {}, A, {}, 428),
    (None, "PUT", {}, A, {"check": "true"}, 200),
    (None, "PUT", ABSENT, WRONG, {}, 422),
    (None, "PUT", {}, WRONG, {"check": "true"}, 422),
    (None, "PUT", ABSENT, b"title = '\xff'", {}, 422),
    (None, "PUT", ABSENT, b"", {}, 422),
    (None, "PUT", ABSENT, "title = 'A'\n#" + "x" * (256 << 10), {}, 413),
    (None, "PUT", ABSENT, b"#" * (1 << 21), {}, 413),
    (None, "PUT", ABSENT, A, {"chek": "true"}, 400),
    (None, "PUT", {**ABSENT, **PRESENT}, A, {}, 400),
    (None, "PUT", {"If-Match": "0000"}, A, {}, 400),
    (None, "DELETE", PRESENT, None, {}, 404),
    (None, "DELETE", {}, None, {}, 428),
    (A, "PUT", ABSENT, B, {}, 412),
    (A, "PUT", PRESENT, B, {}, 200),
    (A, "PUT", OLD, B, {}, 412),
    (A, "PUT", "its ETag", B, {}, 200),
    (A, "PUT", "its ETag", WRONG, {}, 422),
    (A, "PUT", {}, B, {"check": "true"}, 200),
    (A, "DELETE", OLD, None, {}, 412),
    (A, "DELETE", "its ETag", None, {}, 200),
]


def test_each_condition_has_one_result(node):
    with api(node) as client:
        for before, method, condition, text, query, status in CHANGES:
            reset(client, before)
            tag = client.get("/v1/boards/x").headers.get("etag")
            headers = {"If-Match": tag} if condition == "its ETag" else condition
            answer = client.request(method, "/v1/boards/x", content=text, headers=headers, params=query)
            case = (before, method, condition, str(text)[:20], query, answer.status_code, answer.text[:300])
            assert answer.status_code == status, case
            is_done = status == 200 and not query
            after = (text if method == "PUT" else None) if is_done else before
            assert source(client, "x") == after, case
            if status == 412:
                assert answer.headers.get("etag") == tag, case
            if status >= 400:
                assert answer.headers["content-type"] == "application/problem+json" and answer.json()["detail"], case
            elif method == "PUT":
                shown = answer.json()["board"]
                assert shown["title"] == tomllib.loads(text)["title"], case
                assert answer.headers["etag"] == f'"{shown["version"]}"', case
                assert is_done == (client.get("/v1/boards/x").json() == shown), case
        reset(client, None)
        assert 'x.toml:3:8: panel[0].kind: found "test", expected "value"' in put(client, "x", WRONG, {}, check="true").json()["detail"]
        assert "x.toml:2:10" in put(client, "x", b"title = 'a'\nrange = '\xff'", {}, check="true").json()["detail"]


def test_a_board_of_the_configuration_is_not_changed(node):
    with api(node) as client:
        before = client.get("/v1/boards/plant").json()
        assert before["origin"] == "configuration" and source(client, "plant").startswith('title = "Board plant"')
        for answer in [put(client, "plant", A, PRESENT), client.delete("/v1/boards/plant", headers=PRESENT)]:
            assert answer.status_code == 409 and "copy the board to another name" in answer.json()["detail"], answer.text
        assert client.get("/v1/boards/plant").json() == before
        # One that has the version is not sent it again.
        known = client.get("/v1/boards/plant", headers={"If-None-Match": f'"{before["version"]}"'})
        assert (known.status_code, known.content) == (304, b"")


def test_what_was_stored_is_there_after_a_start_and_files_may_be_changed_by_hand(tmp_path):
    with Node(tmp_path) as node, api(node) as client:
        assert put(client, "x", A, ABSENT).status_code == 200 and put(client, "y", B, ABSENT).status_code == 200
        assert [one["origin"] for one in client.get("/v1/boards").json()["boards"]] == ["data", "data"]
        folder = node.data / "boards"
        assert sorted(path.name for path in folder.iterdir()) == ["x.toml", "y.toml"]
        # What somebody wrote into the folder counts, though the node has not read it yet.
        (folder / "x.toml").write_text(B)
        tag = client.get("/v1/boards/x").headers["etag"]
        stale = put(client, "x", A, {"If-Match": tag})
        assert stale.status_code == 412 and stale.headers["etag"] == client.get("/v1/boards/y").headers["etag"]
        assert source(client, "x") == B
        (folder / "y.toml").write_text(WRONG)
        damaged = put(client, "y", A, PRESENT)
        assert damaged.status_code == 409 and "y.toml:3:8" in damaged.json()["detail"], damaged.text
        board(tmp_path, "x", "a/b")
        node.reload()
        assert [(one["name"], one["title"]) for one in client.get("/v1/boards").json()["boards"]] == [("x", "B")]
        assert client.delete("/v1/boards/x", headers=PRESENT).status_code == 200
        assert client.get("/v1/boards/x").json()["title"] == "Board x"
    with Node(tmp_path) as node, api(node) as client:
        assert [(one["name"], one["origin"]) for one in client.get("/v1/boards").json()["boards"]] == [("x", "configuration")]
        (node.data / "boards" / "y.toml").write_text(A)
        node.reload()
        assert source(client, "y") == A


def test_a_node_that_is_killed_leaves_the_old_or_the_new_board(tmp_path):
    texts = [f'title = "{n}"\n' + f"# {n}\n" * (2_000 + n) for n in range(4)]
    node = Node(tmp_path)
    try:
        for turn in range(5):
            acknowledged, sent = [], []

            def write(acknowledged=acknowledged, sent=sent, http=node.http):
                with httpx.Client(base_url=f"http://{http}", timeout=30) as client:
                    for n in range(10_000):
                        sent.append(texts[n % 4])
                        try:
                            client.put("/v1/boards/x", content=sent[-1], headers=ABSENT if n == 0 and turn == 0 else PRESENT).raise_for_status()
                        except httpx.TransportError:
                            return
                        acknowledged.append(sent[-1])
                        if len(acknowledged) == 3 + turn:
                            ready.set()

            ready = threading.Event()
            writer = threading.Thread(target=write)
            writer.start()
            assert ready.wait(60), node.process.said()
            node.process.process.kill()
            writer.join()
            node.process.process.wait()
            node.start()
            with api(node) as client:
                found = source(client, "x")
            assert found in (acknowledged[-1], sent[-1]), (turn, found[:20], acknowledged[-1][:20], sent[-1][:20])
            assert [path.name for path in (node.data / "boards").iterdir()] == ["x.toml"]
    finally:
        node.process.stop()


def test_a_disk_that_refuses_changes_nothing(tmp_path):
    with Node(tmp_path) as node, api(node) as client:
        assert put(client, "x", A, ABSENT).status_code == 200
        beside = node.data / "boards" / "x.toml.new"
        beside.symlink_to("/dev/full")
        full = put(client, "x", B, PRESENT)
        assert full.status_code == 507 and "No space left" in full.json()["detail"] and "nothing has changed" in full.json()["detail"], full.text
        assert source(client, "x") == A and not beside.exists()
        beside.mkdir()
        refused = put(client, "x", B, PRESENT)
        assert refused.status_code == 503, refused.text
        assert source(client, "x") == A
        beside.rmdir()
        assert put(client, "x", B, PRESENT).status_code == 200


def test_who_may_change_boards_and_what_the_audit_log_has(tmp_path):
    with Guarded(tmp_path) as node:
        clients = {user: api(node, auth=(user, f"password-{user}")) for user in ["anna", "boss", "sec"]}
        anna, boss, sec = clients.values()
        text = 'title = "x"\n[[panel]]\nkind = "value"\ntopics = ["{}"]\n'
        for method in ["PUT", "DELETE"]:
            assert anna.request(method, "/v1/boards/x", content=A, headers=PRESENT).status_code == 403
            assert httpx.request(method, f"http://{node.http}/v1/boards/x", content=A, headers=PRESENT).status_code == 401
        assert put(anna, "x", A, {}, check="true").status_code == 403
        assert [client.get("/v1/me").json()["may"]["edit_boards"] for client in (anna, boss, sec)] == [False, True, False]
        first = put(boss, "x", text.format("other/a"), ABSENT)
        assert first.status_code == 200, first.text
        # The rights to read it are those of its topics.
        assert (boss.get("/v1/boards/x").status_code, anna.get("/v1/boards/x").status_code) == (200, 404)
        second = put(boss, "x", text.format("site/a"), {"If-Match": first.headers["etag"]})
        assert second.status_code == 200 and anna.get("/v1/boards/x").status_code == 200
        # The same again is no change, and has no record.
        assert put(boss, "x", text.format("site/a"), PRESENT).status_code == 200
        assert put(boss, "x", WRONG, PRESENT).status_code == 422
        assert boss.delete("/v1/boards/x", headers={"If-Match": second.headers["etag"]}).status_code == 200
        log = [entry for entry in node.audit() if entry["phase"].startswith("board_")][::-1]
        assert [entry["phase"] for entry in log] == ["board_added", "board_changed", "board_removed"]
        assert all("boss" in entry["who"] and entry["topic"] == "$boards" for entry in log), log
        versions = [answer.headers["etag"].strip('"') for answer in (first, second)]
        assert versions[0] in log[1]["detail"] and versions[1] in log[1]["detail"] and '"x"' in log[1]["detail"]
        assert any(entry["phase"] == "denied" and entry["topic"] == "$boards" for entry in node.audit())
        for client in clients.values():
            client.close()


def test_one_who_may_change_boards_and_read_no_topic_of_one_does_not_change_it(tmp_path):
    with Guarded(tmp_path) as node:
        (tmp_path / "roles.toml").write_text((tmp_path / "roles.toml").read_text() + '\n[role.boards]\nrules = ["allow admin $boards", "allow read site/#"]\n')
        node.add("berta", "boards")
        text = 'title = "x"\n[[panel]]\nkind = "value"\ntopics = ["other/a"]\n'
        with api(node, auth=("boss", "password-boss")) as boss, api(node, auth=("berta", "password-berta")) as berta:
            until(lambda: berta.get("/v1/me").status_code == 200, lambda: berta.get("/v1/me").text)
            assert put(boss, "x", text, ABSENT).status_code == 200
            for answer in [put(berta, "x", A, PRESENT), put(berta, "x", A, ABSENT), berta.delete("/v1/boards/x", headers=PRESENT)]:
                assert answer.status_code == 403 and "may read none" in answer.json()["detail"], answer.text
            assert source(boss, "x") == text
            assert put(berta, "y", A, ABSENT).status_code == 200


def test_the_command_line(tmp_path):
    with Node(tmp_path) as node:
        file = tmp_path / "x.toml"

        def run(*words, code=0, text=None):
            done = tieline("boards", *words, "--http", node.http, check=False, input=text)
            assert done.returncode == code, (words, done.stdout, done.stderr)
            return done.stdout if code == 0 else done.stderr

        file.write_text(WRONG)
        assert "x.toml:3:8: panel[0].kind" in run("put", "x", file, "--check", code=3)
        assert "x.toml:3:8" in run("put", "x", file, code=3)
        file.write_text(B)
        assert run("put", "x", file, "--check") == "x: ok, 1 panel\n"
        assert run("list", "--json") == ""
        version = run("put", "x", file).split()[-1]
        assert run("show", "x") == B and json.loads(run("show", "x", "--json"))["version"] == version
        assert run("list").splitlines()[1].split() == ["x", "B", "1", "data", version]
        assert "there is a board" in run("put", "x", file, "--if-absent", code=3)
        changed = json.loads(run("put", "x", "-", "--if-version", version, "--json", text=A))["board"]["version"]
        assert changed != version and run("show", "x") == A
        assert changed in run("put", "x", file, "--if-version", version, code=3)
        assert "expected --yes" in run("delete", "x", code=1)
        assert "there is a board" in run("delete", "x", "--yes", "--if-version", version, code=3)
        assert run("delete", "x", "--yes") == "x: deleted\n"
        assert "there is no board" in run("delete", "x", "--yes", code=3)
        assert "there is no board" in run("show", "x", code=3)
        assert "the name is" in run("put", "X", file, code=3)


def test_a_backup_has_them(tmp_path):
    with Node(tmp_path) as node, api(node) as client:
        assert put(client, "x", B, ABSENT).status_code == 200
        tieline("backup", "-o", tmp_path / "backup.tar", "--http", node.http)
    tieline("restore", tmp_path / "backup.tar", "--data", tmp_path / "restored")
    with Node(tmp_path, data=tmp_path / "restored") as node, api(node) as client:
        assert source(client, "x") == B
