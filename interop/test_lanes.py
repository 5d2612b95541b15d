"""What the node does to a device besides asking for values: a second connection, freezes, dead-bands, link confirms."""

import json
import re

import pytest
from node import Device, OurOutstation
from waiting import until

TWO_MASTERS = OurOutstation.CONFIG.replace("master = 1\n", "") + "\n[[master]]\naddress = 1\n\n[[master]]\naddress = 2\n"
LANE = '[device.relay1.lane]\nmaster = 2\npriority = "protection"\nclasses = [1]\n'


class Station(OurOutstation):
    """Our outstation, with what it tells of itself."""

    def told(self, **wanted):
        all_told = [json.loads(line) for line in list(self.errors) if line.startswith("{")]
        return [one for one in all_told if all(one.get(key) == value for key, value in wanted.items())]

    def wait_told(self, count=1, **wanted):
        def found():
            told = self.told(**wanted)
            return told if len(told) >= count else None

        return until(found, lambda: f"{wanted}\n{self.said()}", 20)


def count_of(node, metric):
    return int(re.search(rf"^{re.escape(metric)} (\d+)$", node.metrics(), re.MULTILINE)[1])


def with_more(device, more):
    toml = device.toml() + more
    device.toml = lambda: toml
    return device


def test_a_lane_is_one_device(start_node, tmp_path):
    with Station(tmp_path, TWO_MASTERS) as station:
        device = with_more(Device("relay1", station.address), LANE)
        node = start_node(device)
        node.wait_state(device, "online")
        station.wait_told(2, event="connected")
        station.wait_told(event="unsolicited-enabled", classes=[1], master=2)
        assert len(node.request("/v1/devices")[1]["devices"]) == 1
        until(lambda: count_of(node, 'tieline_dnp3_lanes{state="up"}') == 1, node.metrics)
        # An event that both bring counts once.
        station.do("update binary 5 true time=1795182000000")
        node.wait_history(device.point("binary", 5), v=True)
        until(lambda: count_of(node, "tieline_dnp3_duplicates_total") >= 1, node.metrics)
        rows = [row for row in node.history(device.point("binary", 5)) if row["v"] is True]
        assert len(rows) == 1, rows
        # What is not of the lane's class comes over the other connection.
        station.do("update analog 3 12.5")
        node.wait_value(device.point("analog", 3), v=12.5)
        # A command goes over the lane.
        assert node.command(device.point("binary-output", 2), True)["status"] == "success"
        station.wait_told(event="operated", master=2)
        assert not station.told(event="operated", master=1)


def test_a_command_goes_on_where_the_lane_is_lost(start_node, tmp_path):
    with Station(tmp_path, OurOutstation.CONFIG) as station:
        # Nobody listens where the lane should be.
        lane = LANE.replace("master = 2", 'master = 2\naddress = "127.0.0.1:1"')
        device = with_more(Device("relay1", station.address), lane)
        node = start_node(device)
        node.wait_state(device, "online")
        assert count_of(node, 'tieline_dnp3_lanes{state="down"}') == 1
        assert node.command(device.point("binary-output", 2), True)["status"] == "success"
        station.do("update binary 5 true")
        node.wait_value(device.point("binary", 5), v=True)


FROZEN = OurOutstation.CONFIG + '\n[[point]]\ntype = "frozen-counter"\nrange = "0-9"\nclass = 3\n'


@pytest.mark.parametrize("by", ["node", "device"])
def test_counters_are_frozen_by_a_schedule(by, start_node, tmp_path):
    with Station(tmp_path, FROZEN) as station:
        plan = f'[[device.relay1.freeze]]\nevery = "1s"\nby = "{by}"\n'
        device = with_more(Device("relay1", station.address, types=["counter", "frozen-counter"]), plan)
        node = start_node(device)
        node.wait_state(device, "online")
        station.do("update counter 3 77")
        station.wait_told(2, event="frozen", cleared=False)
        node.wait_value(device.point("frozen-counter", 3), v=77)
        if by == "node":
            assert until(lambda: count_of(node, 'tieline_dnp3_freezes_total{end="done"}') >= 2, node.metrics)


def test_a_freeze_may_clear(start_node, tmp_path):
    with Station(tmp_path, FROZEN) as station:
        plan = '[[device.relay1.freeze]]\nevery = "1s"\nclear = true\n'
        device = with_more(Device("relay1", station.address, types=["counter", "frozen-counter"]), plan)
        node = start_node(device)
        node.wait_state(device, "online")
        station.wait_told(event="frozen", cleared=True)
        station.do("update counter 3 77")
        node.wait_history(device.point("frozen-counter", 3), v=77)
        node.wait_value(device.point("counter", 3), v=0)


def test_dead_bands_are_written_at_the_start_and_after_a_restart(start_node, tmp_path):
    with Station(tmp_path) as station:
        device = Device("relay1", station.address, types=["analog"])
        rows = device.csv().splitlines()
        rows = [rows[0] + ",dead_band", *(f"{row},5" for row in rows[1:])]
        device.csv = lambda: "\n".join(rows) + "\n"
        node = start_node(device)
        node.wait_state(device, "online")
        station.wait_told(event="dead-bands-written")
        station.do("update analog 3 4")
        station.do("update analog 4 6")
        node.wait_value(device.point("analog", 4), v=6)
        assert node.get(device.point("analog", 3))["v"] == 0
        station.do("restart")
        station.wait_told(2, event="dead-bands-written")


def test_frames_are_confirmed_and_counted(start_node, tmp_path):
    with Station(tmp_path) as station:
        device = Device("relay1", station.address, link_confirms=True, link_timeout="2s")
        node = start_node(device)
        node.wait_state(device, "online")
        station.do("update analog 3 12.5")
        node.wait_value(device.point("analog", 3), v=12.5)
        frames = count_of(node, "tieline_dnp3_frames_total")
        fragments = count_of(node, "tieline_dnp3_fragments_total")
        # Each of our requests was acknowledged by a frame without a fragment.
        assert frames > fragments + count_of(node, "tieline_dnp3_requests_total") // 2
        assert count_of(node, "tieline_dnp3_crc_errors_total") == 0
