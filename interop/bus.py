"""MQTT clients that are not ours: mosquitto's programs, paho, and bare bytes."""

import json
import queue
import socket
import struct
import subprocess

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from processes import Lines
from waiting import until

VERSIONS = {"3.1.1": paho.MQTTv311, "5": paho.MQTTv5}


class Sub(Lines):
    """`mosquitto_sub`, whose messages are collected."""

    def __init__(self, node, *filters, qos=0, version="5", more=()):
        topics = [word for one in filters for word in ("-t", one)]
        protocol = {"5": "mqttv5", "3.1.1": "mqttv311"}[version]
        base = ["stdbuf", "-oL", "mosquitto_sub", "-h", "127.0.0.1", "-p", node.mqtt_port, "-V", protocol]
        super().__init__([*base, "-q", qos, "-d", "-F", "%j", *topics, *more])
        until(lambda: [line for line in self.lines if "Subscribed" in line], self.said)

    def messages(self):
        """(retained, topic, payload) of each message, the payload as JSON where it is."""
        return [self._message(json.loads(line)) for line in list(self.lines) if line.startswith("{")]

    @staticmethod
    def _message(message):
        payload = message["payload"]  # None where there is none
        try:
            payload = json.loads(payload or "null")
        except ValueError:
            pass
        return message["retain"] == 1, message["topic"], payload

    def wait(self, topic, seconds=15.0, retained=None, payload=None, **members):
        """Waits for a message; `members` are those of its JSON."""

        def fits(message):
            body = message[2]
            has = isinstance(body, dict) if members else payload is None or body == payload
            return (
                message[1] == topic
                and (retained is None or message[0] == retained)
                and has
                and all(body.get(key) == value for key, value in members.items())
            )

        found = until(
            lambda: [message for message in self.messages() if fits(message)],
            lambda: f"{topic} {members or payload}\n{self.said()}",
            seconds,
        )
        return found[-1][2]


def publish(node, topic, payload, *more, qos=1, version="5"):
    """`mosquitto_pub`, to its end."""
    protocol = {"5": "mqttv5", "3.1.1": "mqttv311"}[version]
    base = ["mosquitto_pub", "-h", "127.0.0.1", "-p", node.mqtt_port, "-V", protocol, "-q", qos, "-t", topic]
    command = [str(word) for word in [*base, "-m", payload, *more]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def request(node, topic, payload):
    """`mosquitto_rr`: publishes with a response topic and returns the response as JSON."""
    base = ["mosquitto_rr", "-h", "127.0.0.1", "-p", node.mqtt_port, "-V", "mqttv5", "-q", 1, "-W", 20]
    command = [str(word) for word in [*base, "-t", topic, "-e", "reply/rr", "-m", payload]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and done.stdout.strip(), f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


class Paho:
    """A paho client with its messages and acknowledgements in queues."""

    def __init__(self, node, version="5", keepalive=60, name="", properties=None):
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=VERSIONS[version])
        self.received, self.acknowledged, self.subscribed = queue.Queue(), queue.Queue(), queue.Queue()
        self.client.on_message = lambda client, data, message: self.received.put(message)
        self.client.on_publish = lambda client, data, mid, *rest: self.acknowledged.put((mid, *rest))
        self.client.on_subscribe = lambda client, data, mid, codes, properties: self.subscribed.put(codes)
        self.prepare()
        self.client.connect("127.0.0.1", node.mqtt_port, keepalive, properties=properties)
        self.client.loop_start()
        until(self.client.is_connected, f"paho {version} connects")

    def prepare(self):
        """What else is set before it connects."""

    def subscribe(self, *filters, qos=1):
        self.client.subscribe([(one, qos) for one in filters])
        codes = self.subscribed.get(timeout=10)
        assert not any(code.is_failure for code in codes), codes

    def publish(self, topic, payload, qos=1, retain=False, properties=None):
        """Publishes and, above QoS 0, waits for the acknowledgement."""
        sent = self.client.publish(topic, payload, qos, retain, properties)
        sent.wait_for_publish(20)
        assert sent.is_published(), topic

    def next(self, seconds=15):
        return self.received.get(timeout=seconds)

    def request(self, topic, payload, correlation):
        """A request by the MQTT 5 convention; (payload, correlation data) of the response."""
        self.subscribe("reply/paho")
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic, properties.CorrelationData = "reply/paho", correlation
        self.publish(topic, payload, properties=properties)
        response = self.next(20)
        return json.loads(response.payload), response.properties.CorrelationData

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def raw(node):
    """A bare connection to the broker."""
    return socket.create_connection(("127.0.0.1", node.mqtt_port), timeout=10)


def connect_packet(version=4, keepalive=60, name=b"raw"):
    """A CONNECT of MQTT 3.1.1 (4) or 5."""
    properties = b"\0" if version == 5 else b""
    body = b"\0\4MQTT" + bytes([version, 2]) + struct.pack("!H", keepalive) + properties
    body += struct.pack("!H", len(name)) + name
    return bytes([0x10, len(body)]) + body


def read_to_end(connection):
    """All bytes until the peer closes; a reset is an end too."""
    content = b""
    try:
        while piece := connection.recv(65536):
            content += piece
    except ConnectionResetError:
        pass
    return content


def varint(number):
    """A length as MQTT writes it."""
    content = b""
    while True:
        number, byte = divmod(number, 128)
        content += bytes([byte | (0x80 if number else 0)])
        if not number:
            return content


def read_packet(connection):
    """The body of one packet; nothing where the peer has closed."""
    try:
        content = connection.recv(1)
        length, shift = 0, 0
        while content:
            byte = connection.recv(1)
            if not byte:
                return b""
            length += (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                break
        body = b""
        while len(body) < length and (piece := connection.recv(length - len(body))):
            body += piece
        return body
    except ConnectionError:
        return b""
