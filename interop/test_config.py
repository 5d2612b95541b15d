"""A wrong configuration: every error at once, each with file, line, key, found and expected."""

import pytest
from node import tieline

WRONG = """[node]
nmae = "site"
[http]
listen = 5
[device.relay1]
topic = "site/+/relay1"
protocol = "dnp33"
address = "127.0.0.1:20000"
points = "relay1.csv"
poll = { integrity = "soon" }
[device.relay1.dnp3]
master = 1
outstation = 70000
[device.relay2]
protocol = "dnp3"
address = "127.0.0.1:20000"
points = "absent.csv"
[device.relay2.dnp3]
outstation = 11
"""
POINTS = "name,type,index\na,analogue,0\nb,analog,70000\n"
EXPECT = [
    ("wrong.toml:2:", "node.nmae", "nmae", "name"),
    ("wrong.toml:4:", "http.listen", "5", "an address"),
    ("wrong.toml:6:", "device.relay1.topic", "site/+/relay1", "expected"),
    ("wrong.toml:7:", "device.relay1.protocol", "dnp33", "dnp3"),
    ("wrong.toml:10:", "device.relay1.poll.integrity", "soon", "a duration"),
    ("wrong.toml:13:", "device.relay1.dnp3.outstation", "70000", "65519"),
    ("wrong.toml:17:", "device.relay2.points", "absent.csv", "expected"),
    ("relay1.csv:2:", "type", "analogue", "analog"),
    ("relay1.csv:3:", "index", "70000", "65535"),
]


CHECKERS = [["config", "check"], ["run", "--http", "127.0.0.1:0", "--config"]]


@pytest.mark.parametrize("command", CHECKERS, ids=lambda words: words[0])
def test_every_error_at_once(tmp_path, command):
    (tmp_path / "wrong.toml").write_text(WRONG)
    (tmp_path / "relay1.csv").write_text(POINTS)
    before = sorted(tmp_path.iterdir())
    done = tieline(*command, tmp_path / "wrong.toml", check=False, seconds=20, cwd=tmp_path)
    assert done.returncode != 0
    told = (done.stdout + done.stderr).splitlines()
    for place, key, found, expected in EXPECT:
        lines = [line for line in told if place in line and key in line]
        assert lines, f"nothing about {place} {key} in\n" + "\n".join(told)
        assert any("found" in line and found in line and expected in line for line in lines), lines
    assert sorted(tmp_path.iterdir()) == before, "a wrong configuration changes nothing"


def test_the_default_configuration_is_right(tmp_path):
    (tmp_path / "default.toml").write_text(tieline("config", "default").stdout)
    tieline("config", "check", tmp_path / "default.toml")


def test_an_absent_file_is_named(tmp_path):
    done = tieline("config", "check", tmp_path / "absent.toml", check=False)
    assert done.returncode != 0 and "absent.toml" in done.stderr + done.stdout
