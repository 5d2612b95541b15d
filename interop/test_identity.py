"""Logins by an identity provider: node-oidc-provider, a browser's requests by httpx, and providers that misbehave."""

import html
import json
import re
import socket
import threading
from contextlib import contextmanager
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from node import BINARY, Node, tieline
from processes import HERE, Lines
from waiting import until

FOLDER = HERE / "peers" / "oidc_provider"
needs_provider = pytest.mark.skipif(not (FOLDER / "node_modules").is_dir(), reason="the packages of oidc-provider are not installed")

SECRET = "a secret: of + the % node"
OIDC = """
[access]
users = "users.toml"
loopback = "closed"
[access.oidc]
issuer = "{issuer}"
client_id = "tieline"
client_secret_file = "oidc.secret"
address = "{address}"
name = "The Grid & Co"
scopes = ["openid", "profile", "groups"]
user_claim = "preferred_username"
timeout = "{timeout}"
break_glass = "root"
roles = {{ "grid-ops" = ["OPERATOR"], "nobody" = ["SECADM"] }}
"""
PROXY = """
[access]
loopback = "closed"
[access.proxy]
from = ["{trusted}"]
roles = {{ "grid-ops" = ["OPERATOR"] }}
"""


class Provider(Lines):
    """`peers/oidc_provider/peer.mjs`."""

    def __init__(self):
        super().__init__(["node", FOLDER / "peer.mjs"])
        self.issuer = self.first()["issuer"]

    def tell(self, line):
        self.send(line)
        until(lambda: any(json.loads(said).get("done") == line for said in self.lines[1:] if said.startswith("{")), self.said)


class Guarded(Node):
    """A node with a provider, whose address is known before its configuration is written."""

    def __init__(self, folder, issuer, address=None, timeout="5s", more=""):
        for name, role in (("root", "ENGINEER"), ("sec", "SECADM"), ("aud", "SECAUD"), ("anna", "VIEWER")):
            words = ["--users", folder / "users.toml", "--role", role]
            tieline("access", "user", "add", name, *words, input=f"password-{name}\n")
        (folder / "oidc.secret").write_text(SECRET + "\n")
        self.issuer, self.address, self.timeout, self.more = issuer, address, timeout, more
        super().__init__(folder)

    def start(self, http="127.0.0.1:0", mqtt="127.0.0.1:0"):
        super().start(http, mqtt)
        self.process.stop()
        own = self.address or f"http://{self.http}"
        self.configure(more=OIDC.format(issuer=self.issuer, address=own, timeout=self.timeout) + self.more)
        return super().start(http=self.http)

    def as_user(self, name, path, **options):
        return httpx.get(f"http://{self.http}{path}", auth=(name, f"password-{name}"), timeout=30, **options)

    def audit(self, phase):
        answer = self.as_user("aud", "/v1/audit?limit=1000")
        assert answer.status_code == 200, answer.text
        return [entry for entry in answer.json()["entries"] if entry["phase"] == phase]

    def metric(self, name):
        lines = self.browser().get("/metrics", auth=("anna", "password-anna")).text.splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} "))

    def browser(self):
        return Browser(base_url=f"http://{self.http}", timeout=30)


class Browser(httpx.Client):
    """A browser that follows redirects, and fills in the forms of the provider."""

    def walk(self, address, login, stop=None):
        """The last answer on the way that begins at an address; `stop` is where it is not gone any further."""
        answer = self.get(address)
        for _ in range(20):
            if answer.is_redirect:
                address = urljoin(str(answer.request.url), answer.headers["Location"])
                if stop and stop in address:
                    return address
                answer = self.get(address)
            elif "/interaction/" in str(answer.request.url) or "/device" in str(answer.request.url):
                form = dict(re.findall(r'name="([a-z_]+)"[^>]*value="([^"]*)"', answer.text))
                if not form or "Sign-in Success" in answer.text:
                    return answer
                form = {name: html.unescape(value) for name, value in form.items()}
                form |= {"login": login, "password": "any"} if form.get("prompt") == "login" else {}
                action = re.search(r'action="([^"]+)"', answer.text).group(1)
                answer = self.post(urljoin(str(answer.request.url), html.unescape(action)), data=form)
            else:
                return answer
        raise AssertionError(answer.text)

    def log_in(self, login, to=""):
        """The node's answer to the browser that comes back."""
        address = self.walk(f"/login/provider{to}", login, stop="/login/callback")
        assert isinstance(address, str), address.text
        return self.get(address)


@pytest.fixture(scope="module")
def provider():
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(provider, tmp_path_factory):
    with Guarded(tmp_path_factory.mktemp("identity"), provider.issuer) as node:
        provider.tell(f"serve http://{node.http}")
        yield node


@needs_provider
@pytest.mark.parametrize("claims", ["id-token", "userinfo"])
def test_a_person_logs_in_and_out(node, provider, claims):
    provider.tell(claims)
    browser = node.browser()

    def log_in():
        # The provider has another key: it is asked for as often as the node may.
        return answer if (answer := browser.log_in("anna", "?to=%23%2Ftrends")).status_code == 303 else None

    page = browser.get(browser.get("/").headers["Location"]).text
    assert "Log in with The Grid &amp; Co" in page and 'class="emergency"' in page
    answer = until(log_in, "no login", 60)
    assert answer.headers["Location"] == "/#/trends"
    cookie = next(value for value in answer.headers.get_list("Set-Cookie") if value.startswith("tieline="))
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    me = browser.get("/v1/me").json()
    assert (me["user"], me["roles"], me["login"]) == ("anna", ["OPERATOR"], True)
    entry = node.audit("login")[0]
    assert entry["who"].endswith(" anna") and entry["reason"] == "provider", entry
    # What changes something must be of a page of the node.
    command = {"topic": "site/x", "value": True}
    ask = lambda **headers: browser.post("/v1/command", json=command, headers=headers).status_code
    assert ask() == 403 and ask(Origin="http://evil.example") == 403
    assert ask(Origin=f"http://{node.http}") == 404 and ask(**{"Sec-Fetch-Site": "same-origin"}) == 404
    assert ask(**{"Sec-Fetch-Site": "cross-site"}) == 403
    assert node.metric("tieline_access_logins") >= 1
    gone = browser.post("/logout", headers={"Accept": "application/json"}).json()["to"]
    assert gone.startswith(f"{provider.issuer}/session/end?client_id=tieline&post_logout_redirect_uri="), gone
    assert browser.get("/v1/me").status_code == 401
    assert browser.get(gone).status_code == 200


@needs_provider
def test_a_person_without_a_group_of_the_map_is_told_so(node):
    answer = node.browser().log_in("eve")
    assert answer.status_code == 403 and "You are eve at The Grid &amp; Co, and none of your groups has a role here" in answer.text
    assert "tieline=" not in " ".join(value for value in answer.headers.get_list("Set-Cookie") if "Max-Age=0" not in value)
    # Nor does anybody come in by the name of the user that is for emergencies.
    assert node.browser().log_in("root").status_code == 401
    refused = {entry["reason"] for entry in node.audit("login_refused")}
    assert {"no_role", "token"} <= refused, refused


@needs_provider
def test_a_login_is_of_one_browser_and_used_once(node):
    browser, other = node.browser(), node.browser()
    back = browser.walk("/login/provider", "anna", stop="/login/callback")
    state, code = (parse_qs(urlsplit(back).query)[name][0] for name in ("state", "code"))
    begun = other.get("/login/provider").headers["Location"]
    of_other = parse_qs(urlsplit(begun).query)["state"][0]
    assert f"code_challenge_method=S256" in begun and "nonce=" in begun
    # A code of somebody else, and a state of somebody else.
    assert other.get(f"/login/callback?state={state}&code={code}").status_code == 400
    assert browser.get(back).status_code == 400, "the state is used"
    answer = other.get(f"/login/callback?state={of_other}&code={code}")
    assert answer.status_code == 400, "another issuer, or none, though the provider names itself"
    begun = other.get("/login/provider").headers["Location"]
    of_other = parse_qs(urlsplit(begun).query)["state"][0]
    answer = other.get("/login/callback", params={"state": of_other, "code": code, "iss": node.issuer})
    assert answer.status_code == 403 and "invalid_grant" in answer.text, "the verifier is that of another login"
    for query in ("", "?state=x", "?code=x", "?state=x&code=y", "?state=x&state=y&code=z", "?error=x"):
        assert browser.get(f"/login/callback{query}").status_code == 400, query
    assert browser.get("/v1/me").status_code == other.get("/v1/me").status_code == 401
    # The way back is a view of the console, and nothing else.
    for to in ("?to=https%3A%2F%2Fevil.example", "?to=%2F%2Fevil.example", "?to=%23%2Fa%0d%0aSet-Cookie%3A%20x"):
        assert node.browser().log_in("anna", to).headers["Location"] == "/", to


@needs_provider
def test_the_provider_ends_a_login(node, provider):
    browser = node.browser()
    assert browser.log_in("anna").status_code == 303 and browser.get("/v1/me").status_code == 200
    page = browser.get(f"{provider.issuer}/session/end")
    form = dict(re.findall(r'name="(xsrf)"[^>]*value="([^"]*)"', page.text))
    browser.post(f"{provider.issuer}/session/end/confirm", data=form | {"logout": "yes"})
    until(lambda: browser.get("/v1/me").status_code == 401, lambda: provider.said())
    for token in ("", "x", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0."):
        assert browser.post("/login/provider-logout", data={"logout_token": token}).status_code == 400


@needs_provider
def test_the_command_line_logs_in_by_a_code(node, tmp_path):
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    run = lambda *words: tieline(*words, "--http", node.http, "--json", check=False, env=environment)
    assert run("whoami").returncode == 3 and run("logout").returncode == 1
    with Lines([BINARY, "login", "--http", node.http, "--json"], env=environment) as login:
        page = login.first()["verification_uri_complete"]
        answer = node.browser().walk(page, "anna")
        assert "Sign-in Success" in answer.text, answer.text
        until(lambda: login.process.poll() is not None, login.said, 60)
        assert login.process.returncode == 0 and json.loads(login.lines[-1])["user"] == "anna", login.said()
    assert json.loads(run("whoami").stdout)["user"] == "anna"
    file = tmp_path / "tieline" / "logins.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    kept = file.read_text()
    assert run("logout").returncode == 0 and run("whoami").returncode == 3
    file.write_text(kept)
    assert run("whoami").returncode == 3, "the token has ended at the node, too"


@needs_provider
def test_an_operator_ends_the_logins_of_a_user(node, tmp_path):
    browser = node.browser()
    assert browser.log_in("anna").status_code == 303
    (tmp_path / "word").write_text("password-sec\n")
    who = ["--http", node.http, "--user", "sec", "--password-file", tmp_path / "word"]
    assert json.loads(tieline("logout", "--of", "anna", *who, "--json").stdout)["ended"] >= 1
    assert browser.get("/v1/me").status_code == 401
    assert node.as_user("anna", "/v1/me").status_code == 200, "other ways in go on"
    denied = httpx.post(f"http://{node.http}/v1/logins/end", json={"user": "sec"}, auth=("anna", "password-anna"))
    assert denied.status_code == 403


@needs_provider
def test_one_local_user_is_left_for_emergencies_and_its_login_is_told(node):
    browser, before = node.browser(), node.metric("tieline_identity_break_glass_total")
    log_in = lambda name: browser.post("/login", data={"user": name, "password": f"password-{name}"})
    assert log_in("anna").status_code == 403 and browser.get("/v1/me").status_code == 401
    assert node.as_user("root", "/v1/me").status_code == 401, "it is written down at the login page alone"
    assert node.metric("tieline_identity_break_glass_total") == before
    assert log_in("root").status_code == 303 and browser.get("/v1/me").json()["user"] == "root"
    assert node.metric("tieline_identity_break_glass_total") == before + 1
    assert node.audit("break_glass")[0]["who"].endswith(" root")
    assert any("break-glass" in line for line in node.process.errors + node.process.lines)


def test_a_login_for_emergencies_is_an_alarm(tmp_path):
    with misbehaving(lambda _: b"") as issuer, Guarded(tmp_path, issuer, more="[alarm]\n") as node:
        alarms = lambda: node.as_user("anna", "/v1/alarms").json()["alarms"]
        assert alarms() == []
        log_in = lambda password: node.browser().post("/login", data={"user": "root", "password": password}).status_code
        assert log_in("a wrong one") != 303 and log_in("password-root") == 303
        alarm = until(alarms, node.process.said)[0]
        assert (alarm["topic"], alarm["kind"], alarm["group"], alarm["value"]) == ("$SYS/conditions/break_glass", "change", "node", 1)


def test_a_cookie_over_tls_is_of_one_host(tmp_path):
    with misbehaving(lambda _: b"") as issuer, Guarded(tmp_path, issuer, "https://node.example") as node:
        answer = node.browser().post("/login", data={"user": "root", "password": "password-root"})
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith("__Host-tieline=") and "; Secure" in cookie and "; Path=/" in cookie and "Domain" not in cookie
        name, value = cookie.split(";")[0].split("=", 1)
        me = lambda name: httpx.get(f"http://{node.http}/v1/me", headers={"Cookie": f"{name}={value}"}).status_code
        assert me(name) == 200 and me("tieline") == 401


@contextmanager
def misbehaving(answer):
    """A server whose answers are these bytes; none keeps the connection open without a word."""
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{server.getsockname()[1]}"

    def serve():
        kept = []
        while not ended.is_set():
            try:
                peer, _ = server.accept()
                kept.append(peer)
                peer.recv(4096)
                for piece in [answer(address)] if isinstance(answer(address), bytes) else answer(address):
                    peer.sendall(piece)
                if answer(address):
                    peer.close()
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield address
    ended.set()
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def head(status, length):
    return f"HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nLocation: http://127.0.0.1:1/\r\n\r\n".encode()


def of(body):
    return head(200, len(body)) + body


MISBEHAVING = {
    "silent": (lambda _: b"", 503),
    "giant": (lambda _: (piece for piece in [head(200, 1 << 40), *[b" " * 65536] * 64]), 503),
    "failing": (lambda _: head(500, 0), 503),
    "leading away": (lambda _: head(302, 0), 502),
    "no JSON": (lambda _: of(b"<html>"), 502),
    "another issuer": (lambda _: of(b'{"issuer":"https://id.example"}'), 502),
    "unsafe": (lambda at: of(json.dumps({"issuer": at, "authorization_endpoint": "javascript:alert(1)"}).encode()), 502),
}


@pytest.mark.parametrize("kind", MISBEHAVING)
def test_a_provider_that_misbehaves_is_told_and_harms_nothing(tmp_path, kind):
    answer, expect = MISBEHAVING[kind]
    with misbehaving(answer) as issuer, Guarded(tmp_path, issuer, timeout="1s") as node:
        told = node.browser().get("/login/provider")
        assert told.status_code == expect and "Back to the login" in told.text, told.text
        assert node.browser().post("/v1/login/device").status_code == expect
        assert node.as_user("anna", "/v1/me").status_code == 200
        assert node.browser().get("/login").status_code == 200


def test_only_a_trusted_proxy_names_users(tmp_path):
    def check(trusted, headers, expect, user=None, method="GET", path="/v1/me"):
        # Several values of a header are several headers.
        answer = httpx.request(method, f"http://{node.http}{path}", headers=headers, json={} if method == "POST" else None)
        assert answer.status_code == expect, (trusted, headers, answer.text)
        if user:
            assert answer.json()["user"] == user and answer.json()["roles"] == ["OPERATOR"], answer.text

    user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
    for trusted in ("127.0.0.1", "10.0.0.5"):
        folder = tmp_path / trusted
        folder.mkdir()
        (folder / "tieline.toml").touch()
        with Proxied(folder, trusted) as node:
            good = [(user, "anna"), (groups, "staff, grid-ops")]
            if trusted != "127.0.0.1":
                check(trusted, good, 403)
                check(trusted, good, 403, path="/healthz")
                check(trusted, [(groups, "grid-ops")], 403)
                check(trusted, [*good, ("X-Forwarded-For", "10.0.0.5")], 403)
                check(trusted, [], 401)
                continue
            check(trusted, good, 200, "anna")
            check(trusted, [], 401)
            check(trusted, [(user, "anna"), (groups, "staff")], 403)
            check(trusted, [(user, "anna"), (groups, "staff")], 403, path="/")
            check(trusted, [*good, (user, "root")], 403)
            check(trusted, [(user, "a/b"), (groups, "grid-ops")], 403)
            check(trusted, good, 403, method="POST", path="/v1/command")
            check(trusted, [*good, ("Origin", f"http://{node.http}")], 400, method="POST", path="/v1/command")


class Proxied(Node):
    """A node behind a proxy that authenticates people."""

    def __init__(self, folder, trusted):
        super().__init__(folder, more=PROXY.format(trusted=trusted))
