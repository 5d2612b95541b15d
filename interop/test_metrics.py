"""Metrics as Prometheus' own parsers read them: both text formats, histograms, one device, how many time series there are."""

import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest
from bus import Sub
from node import tieline
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families
from simulated import SimulatedDevice
from waiting import until

#: What Prometheus 2.42 sends.
ACCEPT = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
EDGES = ["0.0001", "0.00025", "0.001", "0.0025", "0.01", "0.025", "0.1", "0.25", "1.0", "2.5", "10.0", "+Inf"]
SERIES_MAX = 400
POINTS = [("level", "float", {"value": "5", "writable": "true"})]


def device(name):
    return SimulatedDevice(name, POINTS, poll="1s")


def scrape(node, accept="", path="/metrics"):
    """The media type and the text."""
    asked = urllib.request.Request(f"http://{node.http}{path}", headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(node):
    """Value of each sample, by its name and its labels."""
    found = [sample for family in open_families(scrape(node, ACCEPT)[1]) for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.items())): sample.value for sample in found}


def identities(text):
    return sorted(line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#"))


@pytest.fixture
def node(start_node):
    return start_node(device("one"), more="[history]\nenabled = true\n")


def test_both_formats_are_what_their_parsers_read(node):
    kind, text = scrape(node)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    open_kind, open_text = scrape(node, ACCEPT)
    assert open_kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert open_text.endswith("# EOF\n") and "# EOF" not in text
    # Scraped by both, a sample is of the same time series.
    assert identities(text) == identities(open_text)
    plain, strict = list(families(text)), list(open_families(open_text))
    assert len(plain) > 150 and {family.type for family in strict} == {"counter", "gauge", "histogram"}
    assert sorted(family.name for family in plain) == sorted(family.name for family in strict)
    with pytest.raises(ValueError):
        list(open_families(open_text.removesuffix("# EOF\n")))


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (package prometheus)")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/device?name=test/one"])
def test_promtool_finds_nothing_wrong(node, path):
    check = lambda text: subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    done = check(scrape(node, path=path)[1])
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    assert check("a_total 1\na_total 1\n").returncode != 0


def test_histograms_count_what_is_done(node):
    def count(name, **labels):
        return samples(node)[f"{name}_count", *sorted(labels.items())]

    with Sub(node, "plant/#", qos=1):
        for number in range(3):
            subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(node.mqtt_port), "-q", "1", "-r", "-t", "plant/a", "-m", str(number)], check=True)
    requests = {route: count("tieline_http_request_seconds", route=route) for route in ("values", "history")}
    node.history("test/one/level")
    node.set("plant/a", "7")
    for route, before in requests.items():
        assert count("tieline_http_request_seconds", route=route) == before + 1, route
    tieline("command", "test/one/level", "6", "--http", node.http)
    for name, least in {
        "tieline_publish_ack_seconds": 1,
        "tieline_bus_turn_seconds": 10,
        "tieline_command_seconds": 1,
        "tieline_device_response_seconds": 1,
        "tieline_journal_sync_seconds": 1,
        "tieline_store_batch_seconds": 1,
        "tieline_history_query_seconds": 1,
    }.items():
        until(lambda name=name, least=least: count(name) >= least, lambda name=name: f"{name}: {count(name)}")
    assert count("tieline_http_request_seconds", route="other") > 1
    families = {family.name: family for family in open_families(scrape(node, ACCEPT)[1])}
    for family in (family for family in families.values() if family.type == "histogram"):
        labels = {tuple(item for item in sorted(sample.labels.items()) if item[0] != "le") for sample in family.samples}
        for which in labels:
            of = [sample for sample in family.samples if set(which) <= set(sample.labels.items())]
            assert [sample.labels["le"] for sample in of if sample.name.endswith("_bucket")] == EDGES
            buckets = [sample.value for sample in of if sample.name.endswith("_bucket")]
            assert buckets == sorted(buckets) and buckets[-1] == next(s.value for s in of if s.name.endswith("_count"))


def test_time_series_do_not_grow_with_devices_and_clients(node):
    before = identities(scrape(node)[1])
    assert len(before) <= SERIES_MAX, len(before)
    node.reload(*(device(f"d{number}") for number in range(40)), more="[history]\nenabled = true\n")
    subscribers = [Sub(node, f"test/d{number}/#") for number in range(10)]
    try:
        for number in range(20):
            node.set(f"plant/{number}", str(number))
        until(lambda: samples(node)["tieline_mqtt_sessions",] == 10, "sessions")
        assert identities(scrape(node)[1]) == before
    finally:
        for subscriber in subscribers:
            subscriber.stop()


def test_a_protocol_without_devices_has_no_metrics(node):
    names = {line.split("{")[0] for line in identities(scrape(node)[1])}
    assert any(name.startswith("tieline_simulated_") for name in names)
    assert not [name for name in names if name.startswith(("tieline_dnp3_", "tieline_modbus_", "tieline_bacnet_"))]


def test_one_device_on_request(node):
    path = "/metrics/device?" + urllib.parse.urlencode({"name": "test/one"})
    value = lambda: {(s.name, s.labels.get("state")): s.value for f in open_families(scrape(node, ACCEPT, path)[1]) for s in f.samples}
    until(lambda: value().get(("tieline_device_polls_total", None), 0) > 1, lambda: value())
    assert value()["tieline_device_state", "online"] == 1 and value()["tieline_device_state", "away"] == 0
    printed = tieline("metrics", "--device", "test/one", "--json", "--http", node.http).stdout
    assert '"tieline_device_info"' in printed and '"tieline_topics"' not in printed
    assert node.request("/metrics/device?name=test/two")[0] == 404
    assert node.request("/metrics/device")[0] == 400
    assert node.request("/metrics/device?nam=test/one")[0] == 400
