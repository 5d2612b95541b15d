"""Users, roles and logins over HTTP: who may see and change them, and what a change does."""

import json
import tomllib
import urllib.error
import urllib.parse
import urllib.request

import pytest
from node import tieline
from test_access import Client, Guarded
from waiting import until


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    with Administered(folder) as running:
        yield running
        running.alive()


class Administered(Guarded):
    """A node with an administrator of users."""

    def __init__(self, folder):
        self.folder = folder
        self.add("ada", "SECADM")
        super().__init__(folder)

    def change(self, verb, user, by="ada", **more):
        path = "/v1/access/users" + ("" if verb == "add" else f"/{verb}")
        status, text = self.ask(path, user=by, body={"user": user, **more})
        return status, json.loads(text)

    def users(self):
        status, text = self.ask("/v1/access/users", user="ada")
        assert status == 200, text
        return {user["user"]: user for user in json.loads(text)["users"]}

    def log_in(self, user):
        """The cookie of a login."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        form = urllib.parse.urlencode(
            {"user": user, "password": f"password-{user}"}
        ).encode()
        asked = urllib.request.Request(f"http://{self.http}/login", form)
        try:
            urllib.request.build_opener(Stay).open(asked, timeout=30)
        except urllib.error.HTTPError as answer:
            assert answer.status == 303
            return answer.headers["Set-Cookie"].split(";")[0]
        raise AssertionError("no redirect")

    def ask_as(self, cookie, path, body=None):
        headers = {
            "Cookie": cookie,
            "Origin": f"http://{self.http}",
            "Content-Type": "application/json",
        }
        asked = urllib.request.Request(
            f"http://{self.http}{path}", body and json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


READS = [
    "/v1/access/users",
    "/v1/access/roles",
    "/v1/access/why?user=anna&topic=site/a&right=read",
    "/v1/logins",
]
CHANGES = ["add", "roles", "password", "disable", "enable", "remove"]


@pytest.mark.parametrize(
    ("user", "reads", "changes"),
    [
        ("ada", True, True),
        ("sec", True, False),
        ("boss", False, False),
        ("anna", False, False),
    ],
)
def test_who_may_see_and_change_users(node, user, reads, changes):
    before = node.users()
    for path in READS:
        assert (node.ask(path, user=user)[0] == 200) == reads, path
    for verb in CHANGES:
        status, problem = node.change(
            verb,
            "nobody",
            by=user,
            **(
                {"roles": []}
                if verb in ("add", "roles")
                else {"password": "x"}
                if verb == "password"
                else {}
            ),
        )
        assert status == ((422 if verb == "add" else 404) if changes else 403), (
            verb,
            problem,
        )
    may = json.loads(node.ask("/v1/me", user=user)[1])["may"]
    assert (may["users"], may["administer_users"]) == (reads, changes)
    assert node.users().keys() == before.keys()


def test_a_user_from_its_first_to_its_last_day(node):
    long = "a-long-password"
    status, answer = node.change(
        "add", "temp", roles=["works"], password="password-temp"
    )
    assert (status, answer["user"]["roles"], answer["user"]["last_login"]) == (
        200,
        ["works"],
        None,
    ), answer
    assert node.change("add", "temp", roles=["works"], password=long)[0] == 409
    with Client(node, "temp", "password-temp", "temps") as temp:
        assert temp.code == 0, "the answer comes when the change holds"
        assert temp.publish("site/temp/a") == 0
        assert node.users()["temp"]["last_login"]
        assert node.change("roles", "temp", roles=["VIEWER"])[1]["user"]["roles"] == [
            "VIEWER"
        ]
        assert temp.publish("site/temp/a") == 0x87 and not temp.ended
        assert node.change("password", "temp", password=long)[0] == 200
        until(lambda: temp.ended, lambda: "the session of the old password goes on")
    for verb, code in [("disable", False), ("enable", True)]:
        assert node.change(verb, "temp")[1]["user"]["disabled"] != code
        with Client(node, "temp", long) as temp:
            assert (temp.code == 0) == code, verb
    assert node.change("remove", "temp")[1] == {"status": "ok", "user": None}
    assert "temp" not in node.users() and node.change("remove", "temp")[0] == 404
    phases = lambda: [
        line["phase"] for line in node.audit() if line["who"].endswith(" ada")
    ]
    wanted = [
        "user_removed",
        "user_enabled",
        "user_disabled",
        "user_password",
        "user_roles",
        "user_added",
    ]
    until(lambda: [phase for phase in phases() if phase in wanted] == wanted, phases)
    details = [line["detail"] for line in node.audit() if line["phase"] == "user_roles"]
    assert details == ['the user "temp" has the roles VIEWER in place of works'], (
        details
    )


def test_what_no_node_would_take_changes_nothing(node):
    file = node.folder / "users.toml"
    before = file.read_bytes()

    def check(words, verb, user, **more):
        status, problem = node.change(verb, user, **more)
        assert status == 422 and words in problem["detail"], problem

    check(
        "which there is not", "add", "new", roles=["NOBODY"], password="a-long-password"
    )
    check("expected 12 at least", "add", "new", roles=["VIEWER"], password="short")
    check("expected 12 at least", "password", "anna", password="short")
    check("is no name", "add", "a/b", roles=["VIEWER"])
    check("one role at least", "roles", "anna", roles=[])
    assert node.change("disable", "anna", more=1)[0] == 422
    assert file.read_bytes() == before


def test_no_change_locks_the_administrators_out(node):
    for verb, more in [
        ("disable", {}),
        ("remove", {}),
        ("roles", {"roles": ["VIEWER"]}),
    ]:
        status, problem = node.change(verb, "ada", **more)
        assert status == 409 and "from yourself" in problem["detail"], problem
    assert (
        node.change("add", "eve", roles=["SECADM"], password="password-eve")[0] == 200
    )
    assert node.change("roles", "ada", by="eve", roles=["SECADM", "VIEWER"])[0] == 200
    assert node.change("disable", "ada", by="eve")[0] == 200
    assert node.change("remove", "eve", by="eve")[0] == 409
    assert node.change("enable", "ada", by="eve")[0] == 200
    assert node.change("remove", "eve")[0] == 200


def test_secrets_stay_in_the_file(node):
    answers = [node.ask(path, user="ada")[1] for path in READS]
    answers.append(
        json.dumps(node.change("password", "boss", password="password-boss")[1])
    )
    secrets = tomllib.loads((node.folder / "users.toml").read_text())["user"]["boss"]
    for answer in [*answers, json.dumps(node.audit())]:
        assert (
            "argon2" not in answer
            and secrets["scram"] not in answer
            and "password-boss" not in answer
        )


def test_the_api_answers_why_as_the_command_line_does(node):
    config = node.config
    for user, right, topic in [
        ("anna", "command", "site/a"),
        ("anna", "read", "site/secret/x"),
        ("anna", "read", "#"),
        ("sec", "publish", "site/a"),
        ("ada", "admin", "$access/users"),
    ]:
        query = urllib.parse.urlencode({"user": user, "topic": topic, "right": right})
        status, text = node.ask(f"/v1/access/why?{query}", user="sec")
        assert status == 200, text
        found = json.loads(text)
        shown = tieline(
            "access",
            "test",
            user,
            right,
            topic,
            "--config",
            config,
            "--json",
            check=False,
        )
        expect = json.loads(shown.stdout)
        assert (found["allowed"], found["roles"], found["rules"]) == (
            expect["allowed"],
            expect["roles"],
            expect["rules"],
        )
        plain = tieline(
            "access", "test", user, right, topic, "--config", config, check=False
        ).stdout.splitlines()
        assert plain[-1].strip() == found["conclusion"]
    assert (
        node.ask("/v1/access/why?user=nobody&topic=a&right=read", user="sec")[0] == 404
    )
    assert (
        node.ask("/v1/access/why?user=anna&topic=a/%23/b&right=read", user="sec")[0]
        == 400
    )
    assert node.ask("/v1/access/why?user=anna&topic=a&right=all", user="sec")[0] == 400
    roles = {
        role["role"]: role
        for role in json.loads(node.ask("/v1/access/roles", user="sec")[1])["roles"]
    }
    assert (
        not roles["works"]["built_in"]
        and "allow command site/#" in roles["works"]["rules"]
        and roles["VIEWER"]["built_in"]
    )


def test_one_ends_ones_other_logins(node):
    first, second = node.log_in("anna"), node.log_in("anna")
    other = node.log_in("boss")
    logins = json.loads(node.ask("/v1/logins?user=anna", user="sec")[1])
    assert logins["count"] == 2 and {login["by"] for login in logins["logins"]} == {
        "password"
    }, logins
    assert node.ask_as(second, "/v1/logins/end-others", {}) == (200, {"ended": 1})
    assert node.ask_as(second, "/v1/me")[1]["user"] == "anna"
    assert node.ask_as(other, "/v1/me")[1]["user"] == "boss"
    assert json.loads(node.ask("/v1/logins?user=anna", user="sec")[1])["count"] == 1
    assert node.ask_as(first, "/v1/me")[0] == 401
    assert node.ask("/v1/logins/end-others", user="anna", body={})[0] == 409
