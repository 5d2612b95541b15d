"""Alarms of the node itself: a full disk, certificates that end, receivers that fail, sites and centres that are away; the real thing each time."""

import os
import subprocess

import pytest
from bus import Paho
from nats_peer import SERVER as NATS
from node import tieline
from site_nodes import Server, centre_of, folder, site_of, wait_for_site
from test_alarms import ask, journal, wait_alarm, wait_normal
from test_disk_full import fill, small_disk  # noqa: F401 (a fixture)
from test_notifications import webhook
from test_notify import SECRET, Hook, hook  # noqa: F401 (a fixture)
from waiting import until

HEAD = "topic,kind,limit,on_delay,off_delay,priority,group,text\n"
ALARM = '[alarm]\nrules = "alarms.csv"\n'
DISK = "$SYS/conditions/disk"
NODE_ROUTE = '[[notify.route]]\ngroup_wait = "0s"\nsteps = [{steps}]\n'


def rules(path, *rows):
    """The operator's own rows: those of the node without their delays."""
    (path / "alarms.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))


def own_certificate(path, days):
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", str(days), "-keyout", "node.key", "-out", "node.pem"]
    words += ["-subj", "/CN=localhost"]
    subprocess.run(["openssl", "req", "-x509", *words], cwd=path, check=True, capture_output=True, timeout=60)


def tls():
    return '[mqtt.tls]\nlisten = "127.0.0.1:0"\ncertificate = "node.pem"\nkey = "node.key"\n'


def listed(node, **wanted):
    """The alarms of the list, by topic and kind."""
    query = "&".join(f"{key}={value}" for key, value in wanted.items())
    status, page = node.request(f"/v1/alarms?{query}")
    assert status == 200, page
    return {(alarm["topic"], alarm["kind"]): alarm for alarm in page["alarms"]}


def test_a_full_disk_is_alarmed_and_told_though_nothing_can_be_written(small_disk, start_node, tmp_path, hook):  # noqa: F811
    rules(tmp_path, f"{DISK},state,true,,1s,critical,node,full")
    (tmp_path / "hook.secret").write_text(SECRET + "\n")
    route = NODE_ROUTE.format(steps='{ to = "duty" }')
    node = start_node(data=small_disk / "data", more="\n".join([ALARM, webhook("duty", hook.port), route]))
    until(lambda: (node.get(DISK) or {}).get("v") is False, node.process.said)
    fill(small_disk / "ballast")
    with Paho(node) as publisher:

        def is_said():
            for _ in range(100):
                publisher.client.publish("load/fill", "x" * 4000, 0)
            return node.get(f"$alarms/{DISK}/state")

        until(is_said, lambda: f"{node.health()}\n{node.process.said()}", 60)
    alarm = wait_alarm(node, DISK, "state", state="unacknowledged", priority="critical", group="node")
    until(lambda: hook.kinds() == ["raised"], lambda: f"{hook.taken} {hook.refused}")
    assert hook.taken[0][1]["alarms"][0]["topic"] == DISK
    node.alive()
    os.unlink(small_disk / "ballast")
    wait_alarm(node, DISK, "state", active=False)
    until(lambda: hook.kinds() == ["raised", "resolved"], lambda: f"{hook.taken} {hook.refused}")
    assert ask(node, "ack", (DISK, "state", alarm["seq"]))[0]["status"] == "done"
    wait_normal(node, DISK, "state")


def test_a_certificate_that_ends_soon_is_alarmed_until_it_is_renewed(start_node, tmp_path):
    own_certificate(tmp_path, 3)
    more = f"[alarm]\n{tls()}"
    node = start_node(more=more)
    topic = f"$SYS/conditions/certificate{tmp_path}/node.pem"
    worse = wait_alarm(node, topic, "low_low", priority="high", active=True)
    assert worse["value"] == 2 and worse["advice"]["action"] and worse["count"] == 1, worse
    # The filter of all topics selects it: it is in the list, and persons do with it what they do with others.
    both = listed(node)
    assert {(topic, "low"), (topic, "low_low")} <= set(both), both
    assert both[topic, "low"]["cause"] == {"topic": topic, "kind": "low_low"}
    assert "low_low" in tieline("alarms", "--http", node.http).stdout
    name = f"{topic}/low_low@{worse['seq']}"
    tieline("alarms", "ack", name, "--http", node.http)
    wait_alarm(node, topic, "low_low", state="acknowledged")
    tieline("alarms", "shelve", f"{topic}/low_low", "--for", "1h", "--why", "it is ordered", "--http", node.http)
    wait_alarm(node, topic, "low_low", state="shelved")
    rows = tieline("alarms", "rules", "--http", node.http).stdout
    assert "$SYS/conditions/certificate/#" in rows and "$SYS/conditions/disk" in rows
    # The value is recorded: the trend of the alarm has something to show.
    node.wait_history(topic, v=2)
    own_certificate(tmp_path, 400)
    node.reload(more=more)
    wait_alarm(node, topic, "low_low", active=False)
    until(lambda: ("returned", topic, "low_low") in journal(node), lambda: f"{journal(node)}")
    # Without the node's own alarms there are none.
    rules(tmp_path, "plant/#,bad,,,,low,,")
    node.reload(more=f"{ALARM}node = false\n{tls()}")
    until(lambda: listed(node) == {} and node.get(topic) is None, lambda: f"{listed(node)} {node.get(topic)}")


def test_a_receiver_that_fails_is_told_to_others_alone(start_node, tmp_path, hook):  # noqa: F811
    duty, failing = "$SYS/conditions/receiver/duty", Hook(*[500] * 1000)
    rules(tmp_path, "plant/level,high,1,,,high,,high", "$SYS/conditions/receiver/+,state,true,,,high,node,fails")
    (tmp_path / "hook.secret").write_text(SECRET + "\n")
    route = NODE_ROUTE.format(steps='{ to = "duty" }, { to = "chief", after = "1h" }')
    parts = [ALARM, webhook("duty", failing.port), webhook("chief", hook.port), route]
    try:
        node = start_node(more="\n".join(parts))
        # It was not used yet: whether it works is not known.
        until(lambda: (node.get(duty) or {}).get("q") not in (None, "good"), lambda: f"{node.get(duty)}")
        node.set("plant/level", "2")
        wait_alarm(node, duty, "state", state="unacknowledged")
        # The step to the receiver is left out: the next one is told at once, and the receiver never.
        until(lambda: hook.kinds() == ["raised"], lambda: f"{hook.taken}")
        assert hook.taken[0][1]["alarms"][0]["topic"] == duty
        failing.statuses.clear()
        wait_alarm(node, duty, "state", active=False)
        until(lambda: hook.kinds() == ["raised", "resolved"], lambda: f"{hook.taken}")
        until(lambda: failing.kinds() == ["raised"], lambda: f"{failing.taken}")
        topics = {alarm["topic"] for _, message in failing.taken + failing.refused for alarm in message["alarms"]}
        assert topics == {"plant/level"}, topics
    finally:
        failing.close()


@pytest.mark.skipif(NATS is None, reason="no nats-server: .ci/nats builds it")
def test_a_site_alarms_its_centre_and_the_centre_alarms_the_node_of_a_site(tmp_path):
    server, centre_away, site_away = Server(folder(tmp_path, "nats")), "$SYS/conditions/centre", "sites/north"
    folder(tmp_path, "rules")
    rules(tmp_path / "rules", f"{centre_away},state,true,3s,,high,node,away", "sites/+,away,,,,high,node,away")
    quick = f'[alarm]\nrules = "{tmp_path}/rules/alarms.csv"\n'
    try:
        with centre_of(tmp_path, server, quick) as centre:
            (tmp_path / "keys").mkdir()
            own_certificate(tmp_path / "keys", 3)
            files = tls().replace('"node.', f'"{tmp_path}/keys/node.')
            with site_of(tmp_path, server, "north", quick + files) as site:
                wait_for_site(centre, "up")
                ends = f"$SYS/conditions/certificate{tmp_path}/keys/node.pem"
                there = f"{site_away}/{ends}"
                wait_alarm(site, ends, "low_low", active=True)
                wait_alarm(centre, there, "low_low", active=True, group="node", cause=None)
                until(lambda: centre.get(f"{site_away}/{centre_away}")["v"] is False, "the site says that it is connected")
                assert f"{site_away}/{centre_away}" not in {topic for topic, _ in listed(centre)}
                centre.process.kill()
                wait_alarm(site, centre_away, "state", active=True)
                centre.start()
                wait_alarm(site, centre_away, "state", active=False)
            # The site has ended: the alarm of its node is what it was, and not certain.
            wait_alarm(centre, site_away, "away", active=True, priority="high")
            wait_alarm(centre, there, "low_low", active=True, uncertain=True)
    finally:
        server.kill()
