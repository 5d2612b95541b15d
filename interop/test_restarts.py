"""A device that restarts again and again: nothing that it served is lost, and what is known of it is right each time.

`--restarts 1000` does it a thousand times; each takes about three seconds: the node connects again after one, and only where the
connection lasts longer than that it does so the next time.
"""

import json

from modbus import ModbusDevice
from processes import Peer
from waiting import until


READS = 20


def served(peer, since):
    """The values of the counter that the peer has given to somebody since it had said so many lines."""
    said = [json.loads(line) for line in peer.lines[since:] if '"read"' in line]
    return [line["read"]["values"][0] for line in said]


def test_a_device_that_restarts_many_times(start_node, request):
    restarts = request.config.getoption("--restarts")
    with Peer("pymodbus_server", "--reads") as peer:
        device = ModbusDevice("meter", peer.address, [("count", "holding-register", 0)])
        node = start_node(device)
        topic, began = device.point("count"), 0
        for number in range(1, restarts + 1):
            until(lambda: len(served(peer, began)) >= READS, peer.said)
            until(lambda: (node.get(topic) or {}).get("q") == "good", lambda: node.get(topic))
            peer.do(f"set 1 holding-registers 0 {number}")
            # It ends as soon as that was read, before the node can have shown it.
            until(lambda: number in served(peer, began), peer.said)
            began = len(peer.lines)
            peer.do("restart")
            until(lambda: node.get(topic)["q"] == "bad", lambda: node.get(topic))
        node.wait_value(topic, v=0, q="good")
        given, rows = set(served(peer, 0)), node.history(topic, "--limit", "10000000")
        assert set(range(1, restarts + 1)) <= given
        assert not given - {row["v"] for row in rows}, sorted(given - {row["v"] for row in rows})
        # Each restart made the value bad, because the device was away, and each time it became good again.
        reasons = {tuple(row.get("why") or ()) for row in rows if row["q"] == "bad"}
        assert reasons <= {("away",), ("away", "stale"), ("initial",)}, reasons
        turns = [row["q"] for at, row in enumerate(rows) if at == 0 or rows[at - 1]["q"] != row["q"]]
        assert turns.count("bad") >= restarts and turns[-1] == "good", turns
