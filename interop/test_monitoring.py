"""Alerts of Prometheus and dashboards of Grafana: each rule fires and ends, each expression has data where the demo has it."""

import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest
from node import Demo
from processes import HERE, Lines
from waiting import until

ROOT = HERE.parent
MONITORING = ROOT / "packaging" / "monitoring"
RULES = MONITORING / "rules.yml"
DASHBOARDS = [MONITORING / "node.json", MONITORING / "sites.json"]
pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (package prometheus)")

#: Of each alert: series with the value that makes it fire, and the one that does not. Counters begin at 0.
GAUGES = {
    "TielineDown": ('up{job="tieline"}', 0, 1),
    "TielineHistoryNotRecorded": ('tieline_history_state{state="hung"}', 1, 0),
    "TielineLedgerNotWritten": ('tieline_ledger_state{state="disk_full"}', 1, 0),
    "TielineLedgerDamaged": ("tieline_ledger_lost_batches", 2, 0),
    "TielineAuditNotWritten": ("tieline_audit_failed", 1, 0),
    "TielineAuditBroken": ("tieline_audit_broken", 1, 0),
    "TielineClockDoubted": ("tieline_clock_doubted", 1, 0),
    "TielineDevicesAway": ('tieline_devices{state="away"}', 3, 0),
    "TielineLaneDown": ('tieline_dnp3_lanes{state="down"}', 1, 0),
    "TielineDatabaseAway": ('tieline_database_up{database="grid"}', 0, 1),
    "TielineDatabaseMissesSamples": ('tieline_database_given_up_records{database="grid"}', 5, 0),
    "TielineDerivedFailed": ("tieline_derived_failed", 1, 0),
    "TielineEdgeAway": ('tieline_edge_link{state="up",upstream="core"}', 0, 1),
    "TielineSiteAway": ("tieline_site_up", 0, 1),
    "TielineCentreMissesSite": ('tieline_centre_site_up{site="north"}', 0, 1),
    "TielineCentreMissesSiteBehind": ('tieline_centre_site_behind_away{site="north"}', 1, 0),
    "TielineSiteDoubled": ('tieline_centre_site_doubled{site="north"}', 1, 0),
    "TielineSiteClockOff": ('tieline_centre_site_clock_offset_seconds{site="north"}', -2, 0.5),
    "TielineNotificationsFail": ('tieline_notification_receiver_failing{receiver="duty"}', 1, 0),
    "TielineNoLeader": ('tieline_cluster_leader_heard{job="tieline"}', 0, 1),
    "TielineStandbyBehind": ('tieline_cluster_member_behind_seconds{member="b"}', 90, 1),
    "TielineStandbyNotHeard": ('tieline_cluster_member_heard_seconds{member="b"}', 45, 1),
}
COUNTERS = {
    "TielineBreakGlass": ["tieline_identity_break_glass_total"],
    "TielinePointsNotRecorded": ["tieline_history_refused_points_total", "tieline_history_dropped_points_total"],
    "TielineDatabaseMissesSamples": ['tieline_database_missing_records_total{database="grid"}'],
    "TielineSubscriberSlow": ['tieline_mqtt_dropped_total{cause="queue_full"}', "tieline_mqtt_ended_full_total"],
    "TielineSiteLosesRecords": ["tieline_site_lost_records_total"],
    "TielineMessagesLost": ['tieline_site_events_lost_total{peer="centre"}'],
    "TielineCommandUnknown": ['tieline_centre_calls_total{outcome="unknown"}'],
}


def names():
    return re.findall(r"alert: (\w+)", RULES.read_text())


def trial(alert, series, values, expected):
    """One trial of promtool: the value of each minute, and at which minutes how many of the alert fire."""
    count = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    checks = [
        {"expr": count, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": firing}] if firing else []}
        for minute, firing in expected.items()
    ]
    return {"interval": "1m", "input_series": [{"series": series, "values": values}], "promql_expr_test": checks}


def run_trials(folder, trials):
    file = folder / "trials.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": trials}))
    return subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)


def all_trials():
    for alert, (series, firing, quiet) in GAUGES.items():
        yield trial(alert, series, f"{quiet}x20 {firing}x40 {quiet}x120", {19: 0, 58: 1, 170: 0})
    for alert, each in COUNTERS.items():
        for series in each:
            yield trial(alert, series, "0x20 4x160", {19: 0, 22: 1, 170: 0})
    # A start is a time: here one, then one each minute, then none for long.
    starts = "100x20 " + " ".join(str(minute * 60) for minute in range(20, 30)) + " 1740x120"
    yield trial("TielineRestarting", "tieline_start_time_seconds", starts, {19: 0, 28: 1, 140: 0})


def test_each_alert_fires_and_ends(tmp_path):
    assert set(GAUGES) | set(COUNTERS) | {"TielineRestarting"} == set(names())
    done = run_trials(tmp_path, list(all_trials()))
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_only_looks_like_it_does_not_fire(tmp_path):
    trials = [
        trial("TielineSubscriberSlow", 'tieline_mqtt_dropped_total{cause="session_ended"}', "0x20 4x60", {22: 0}),
        trial("TielineDevicesAway", 'tieline_devices{state="away"}', "0x20 3x3 0x60", {22: 0, 24: 0}),
        trial("TielineHistoryNotRecorded", 'tieline_history_state{state="catching_up"}', "0x20 1x60", {60: 0}),
        trial("TielineRestarting", "tieline_start_time_seconds", "100x20 1300x60", {22: 0}),
    ]
    done = run_trials(tmp_path, trials)
    assert done.returncode == 0, done.stdout + done.stderr
    # promtool finds what is not as it should be.
    wrong = run_trials(tmp_path, [trial("TielineDown", 'up{job="tieline"}', "0x20", {10: 0})])
    assert wrong.returncode != 0


def test_each_alert_has_its_section_of_the_runbook():
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert sections == names()
    links = re.findall(r"runbook_url: \S+/docs/runbook\.md#(\w+)", RULES.read_text())
    assert links == [name.lower() for name in names()]
    table = re.findall(r"^\| \[(\w+)\]\(runbook\.md#(\w+)\) \| (\w+) \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
    severities = re.findall(r"severity: (\w+)", RULES.read_text())
    assert table == [(name, name.lower(), severity) for name, severity in zip(names(), severities, strict=True)]


def test_every_metric_is_documented():
    documented = set(re.findall(r"\b(?:tieline|process)_\w+", (ROOT / "docs/metrics.md").read_text()))
    for file in [RULES, *DASHBOARDS]:
        found = re.findall(r"\b(?:tieline|process)_\w+", file.read_text())
        # A histogram is documented by the name of its family.
        used = {re.sub(r"_seconds_(?:bucket|sum|count)$", "_seconds", name) for name in found}
        assert used - {"tieline_build_info"} <= documented, (file.name, used - documented)


def test_dashboards_are_as_they_are_generated(tmp_path):
    subprocess.run([sys.executable, MONITORING / "dashboards.py", tmp_path], check=True)
    for file in DASHBOARDS:
        assert file.read_text() == (tmp_path / file.name).read_text(), f"packaging/monitoring/dashboards.py packaging/monitoring writes {file.name}"


#: What only installations with more than one node, or with a database, have.
ELSEWHERE = ("tieline_centre_", "tieline_cluster_", "tieline_edge_", "tieline_database_")


class Prometheus(Lines):
    """The server of Debian's package at a free port, which scrapes a node each second and knows the rules."""

    def __init__(self, folder, node):
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "tieline", "static_configs": [{"targets": [node.http]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        words = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus"]
        super().__init__([*words, "--web.listen-address=127.0.0.1:0"])

        def address():
            found = [re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', line) for line in list(self.errors)]
            return next((match[1] for match in found if match), None)

        self.address = until(address, self.said, 30)
        until(self.is_ready, self.said, 30)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=30).status == 200
        except urllib.error.HTTPError:
            return False

    def ask(self, path, **asked):
        query = urllib.parse.urlencode(asked)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]


def expressions():
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                filled = target["expr"].replace("$job", "tieline").replace("$instance", ".*").replace("$__rate_interval", "10s")
                yield panel["title"], filled


def test_prometheus_takes_rules_and_every_expression(tmp_path):
    with Demo(tmp_path) as demo, Prometheus(tmp_path, demo) as prometheus:
        until(lambda: prometheus.ask("query", query="rate(tieline_updates_total[10s]) > 0")["result"], prometheus.said, 60)
        for title, expression in expressions():
            found = prometheus.ask("query", query=expression)["result"]
            assert found or any(name in expression for name in ELSEWHERE), f"{title}: {expression} has no data"
        (group,) = prometheus.ask("rules")["groups"]
        until(lambda: all(rule["health"] == "ok" for rule in prometheus.ask("rules")["groups"][0]["rules"]), prometheus.said, 30)
        assert [rule["name"] for rule in group["rules"]] == names()
        assert prometheus.ask("alerts")["alerts"] == [], "the demo is well"
