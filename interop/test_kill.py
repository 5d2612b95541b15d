"""Kill -9 under load, again and again: what was acknowledged is in the history."""

import json
import queue
import random

import paho.mqtt.client as paho
from node import Device
from processes import Peer
from waiting import until

PUBLISHERS = 3


class Load:
    """A publisher at QoS 1 that counts upwards on its own topic and knows what was acknowledged."""

    def __init__(self, number):
        self.topic, self.next, self.acknowledged = f"load/{number}", 0, set()

    def connect(self, node):
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.max_inflight_messages_set(50)
        self.values, self.acks = {}, queue.Queue()
        self.client.on_publish = lambda client, data, mid, reason, properties: self.acks.put((mid, reason.is_failure))
        self.client.connect("127.0.0.1", node.mqtt_port)
        self.client.loop_start()
        until(self.client.is_connected, "a publisher connects")

    def push(self, count):
        for _ in range(count):
            self.next += 1
            self.values[self.client.publish(self.topic, json.dumps({"v": self.next}), 1, True).mid] = self.next

    def collect(self):
        """Takes the acknowledgements that have come."""
        while not self.acks.empty():
            mid, failed = self.acks.get()
            if not failed:
                self.acknowledged.add(self.values[mid])
        return len(self.acknowledged)

    def drop(self):
        self.client.disconnect()  # or the loop would try to connect again
        self.client.loop_stop()
        self.collect()


def test_nothing_acknowledged_is_lost(start_node, request):
    kills = request.config.getoption("--kills")
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    loads = [Load(number) for number in range(PUBLISHERS)]
    events = 0
    with Peer("opendnp3_outstation") as peer:
        device = Device("relay1", peer.address)
        node = start_node(device)
        for kill in range(kills):
            if kill:
                node.start()
            for load in loads:
                load.connect(node)
            before = sum(len(load.acknowledged) for load in loads)
            enough = before + chance.randrange(20, 400)
            while sum(load.collect() for load in loads) < enough:
                for load in loads:
                    load.push(20)
                events += 1
                peer.do(f"update analog 1 {events}")
                target = sum(len(load.acknowledged) for load in loads) + 20
                until(lambda: sum(load.collect() for load in loads) >= min(target, enough), node.process.said)
            node.process.kill()
            for load in loads:
                load.drop()
        node.start()
        node.wait_state(device, "online", 60)
        node.wait_history(device.point("analog", 1), 60, v=events)
        until(lambda: node.request("/v1/status")[1]["history"]["backlog"] == 0, "the store catches up", 60)
        lost, twice, acknowledged = 0, 0, 0
        for load in loads:
            rows = [row["v"] for row in node.history(load.topic, "--limit", "1000000")]
            lost += len(load.acknowledged - set(rows))
            twice += len(rows) - len(set(rows))
            acknowledged += len(load.acknowledged)
        rows = [row["v"] for row in node.history(device.point("analog", 1), "--limit", "1000000")]
        missing = set(range(1, events + 1)) - set(rows)
    published = f"{acknowledged} publications acknowledged, {lost} lost, {twice} stored twice"
    print(f"measured: {kills} kills, {published}; {events} device events, {len(missing)} lost")
    assert (lost, missing) == (0, set())
    assert acknowledged >= kills * 20 and events >= kills
