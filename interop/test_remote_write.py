"""History by Prometheus remote write, into VictoriaMetrics and a receiver that refuses."""

import json
import shutil
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from databases import Victoria
from test_databases import Load, status, up_to_date
from waiting import until

needs_victoria = pytest.mark.skipif(not shutil.which("victoria-metrics"), reason="VictoriaMetrics is not installed")


def remote_write(port, **more):
    keys = {"kind": "remotewrite", "url": f"http://127.0.0.1:{port}/api/v1/write", "every": "20ms", **more}
    return "\n".join(["[history.database.metrics]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""])


class Prompt(Victoria):
    """VictoriaMetrics that shows what is there, not what was there half a minute ago."""

    MORE = ("-search.latencyOffset=0s",)

    def spawn(self, command, log):
        super().spawn([*command, *self.MORE], log)


class Guarded(Prompt):
    """VictoriaMetrics that asks for a password."""

    MORE = ("-httpAuth.username=tieline", "-httpAuth.password=correct horse")

    def answers(self):
        return super().answers() or "httpserver" in (self.folder / "log").read_text()


def numbers(victoria):
    return victoria.values('{__name__="tieline_value",topic=~"load/.*"}')


@needs_victoria
def test_each_sample_is_there_whoever_is_killed_or_hangs(start_node):
    with Victoria() as victoria:
        load, node = Load(), start_node(more=remote_write(victoria.port, timeout="1s"))
        for kill in range(4):
            load.connect(node)
            load.push_all(200)
            if kill % 2:
                victoria.pause()
                load.push_all(200)
                until(lambda: status(node)["state"] == "away", lambda: status(node), 30)
                victoria.resume()
                load.drop()
            else:
                node.process.kill()
                load.drop()
                node.start()
        load.connect(node)
        load.push_all(10)
        up_to_date(node)

        def found():
            # Times are milliseconds there: of two samples of one topic and millisecond one is kept.
            rows = {(row["topic"], row["t"][:23]): row["v"] for row in node.history("load/+")}
            shown = {value for values in numbers(victoria).values() for value in values}
            return shown and max(shown) == load.next and len(shown) >= len(rows) and len(rows)

        until(found, lambda: numbers(victoria).keys(), 30)
        assert status(node)["missing"] == 0
        load.drop()


@needs_victoria
def test_values_and_the_end_of_a_series(start_node):
    with Prompt() as victoria:
        node = start_node(more=remote_write(victoria.port, metric="plant", topics=["kinds/#"]))
        kinds = {"int": '{"v": 7}', "true": '{"v": true}', "text": '{"v": "x"}', "old": '{"v": 1, "t": "2020-02-29T23:59:59.999Z"}'}
        for name, payload in kinds.items():
            node.set(f"kinds/{name}", payload)
        up_to_date(node)
        node.set("kinds/int", '{"v": 8, "q": "bad"}')
        up_to_date(node)
        assert 'tieline_database_skipped_points_total{database="metrics"} 1' in node.metrics()

        def shown(topic, at=None):
            at = at or time.time()
            victoria.values("plant")
            words = urllib.parse.urlencode({"query": f'plant{{topic="{topic}"}}', "time": at, "nocache": 1})
            found = json.load(urllib.request.urlopen(f"http://127.0.0.1:{victoria.port}/api/v1/query?{words}", timeout=10))
            return [(series["metric"]["q"], series["value"][1]) for series in found["data"]["result"]]

        until(lambda: shown("kinds/true") == [("good", "1")], lambda: shown("kinds/true"), 30)
        # The good series ends where the value becomes bad: a query finds one.
        until(lambda: shown("kinds/int") == [("bad", "8")], lambda: shown("kinds/int"), 30)
        assert shown("kinds/old", "2020-03-01T00:00:30Z") == [("good", "1")]


@needs_victoria
def test_a_password_is_asked_for(start_node, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    with Guarded() as victoria:
        node = start_node(more=remote_write(victoria.port, user="tieline", password_file=str(secret)))
        node.set("load/x", '{"v": 1}')
        until(lambda: "401" in (status(node)["detail"] or ""), lambda: status(node), 15)
        secret.write_text("correct horse\n")
        up_to_date(node)


def test_tokens_headers_and_what_is_refused(start_node, tmp_path):
    seen, answers = [], [204, 503, 204]

    class Receiver(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((dict(self.headers.items()), len(body)))
            # An empty body in snappy is one byte; every request with samples is refused in the end.
            self.send_response(answers.pop(0) if answers else 204 if len(body) == 1 else 400)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    secret = tmp_path / "secret"
    secret.write_text("token\n")
    more = remote_write(server.server_port, password_file=str(secret), headers=["X-Scope-OrgID: plant"], topics=["load/#"])
    node = start_node(more=more)
    node.set("load/x", '{"v": 1}')
    node.set("load/y", '{"v": 2}')
    try:
        until(
            lambda: 'tieline_database_rejected_points_total{database="metrics"} 2' in node.metrics(),
            lambda: (status(node), seen),
            30,
        )
        assert up_to_date(node)["missing"] == 0
        headers = {name.lower(): value for name, value in seen[-1][0].items()}
        assert headers["authorization"] == "Bearer token" and headers["x-scope-orgid"] == "plant"
        assert headers["content-encoding"] == "snappy" and headers["content-type"] == "application/x-protobuf"
        assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    finally:
        server.shutdown()
