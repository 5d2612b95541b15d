"""MQTT.js in Chromium over WebSocket, with deltas and without: what a page is told is what was published."""

import functools
import http.server
import json
import subprocess
import threading

import pytest
from bus import Paho
from processes import HERE, Lines
from test_delta_typescript import SDK
from test_mqtt_doors import address
from waiting import until

CONSOLE = HERE.parent / "console"
PLACES = {
    "/page.html": HERE / "peers" / "browser.html",
    "/mqtt/mqtt.esm.js": SDK / "node_modules" / "mqtt" / "dist" / "mqtt.esm.js",
}
pytestmark = pytest.mark.skipif(
    not (SDK / "node_modules").is_dir() or not (CONSOLE / "node_modules").is_dir(), reason="the packages are not installed"
)


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the page, MQTT.js as it comes from its package, and our client as it was built."""

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        file = PLACES.get(self.path, SDK / "dist" / "src" / name if self.path.startswith("/tieline/") else None)
        if file is None or not file.is_file():
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path.endswith(".html") else "text/javascript")
        self.end_headers()
        self.wfile.write(file.read_bytes())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def pages():
    """The address of the page."""
    done = subprocess.run(["npm", "run", "build"], cwd=SDK, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page.html"
        server.shutdown()


def test_mqtt_js_in_chromium(start_node, pages):
    node = start_node(more='[mqtt.websocket]\nlisten = "127.0.0.1:0"\n')
    host, port = address(node, "mqtt_websocket")
    command = ["node", HERE / "peers" / "browser.mjs", pages, f"ws://{host}:{port}/mqtt", "browser/#"]
    value = lambda number: json.dumps({"device": "relay 7", "notes": "x" * 800, "count": number})
    with Paho(node, name="publisher") as publisher, Lines(command) as page:
        said = lambda: [json.loads(line) for line in list(page.lines) if line.startswith("{")]
        told = functools.partial(lambda by: [(one["topic"], one["text"]) for one in said() if one.get("by") == by])
        until(lambda: len([one for one in said() if "granted" in one]) == 2, page.said, 60)
        wanted = []
        for number in range(200):
            wanted.append((f"browser/{number % 3}", value(number)))
            publisher.publish(*wanted[-1], retain=True)
            # One at a time: every value is told, for nobody is behind.
            until(lambda: told("plain")[-1:] == told("deltas")[-1:] == wanted[-1:], page.said, 30)
        assert told("plain") == told("deltas") == wanted
        assert not [one for one in said() if "lost" in one or "error" in one]
        data = {by: max(one["bytes"] for one in said() if one.get("by") == by) for by in ("plain", "deltas")}
        print(f"measured: {data} bytes of PUBLISH for 200 values")
        assert data["deltas"] < data["plain"] / 4
    node.alive()
