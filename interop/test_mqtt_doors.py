"""MQTT over TLS and WebSocket: mosquitto's programs and paho, and a handshake by hand."""

import json
import queue
import socket
import ssl
import subprocess

import paho.mqtt.client as paho
import pytest
from bus import VERSIONS, connect_packet, read_to_end
from carriers import certificate
from waiting import until

HANDSHAKE = (
    "GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
)


@pytest.fixture
def node(start_node, tmp_path):
    """A node that listens for everything; its certificate is its own."""
    certificate(tmp_path, "node")
    files = '{ certificate = "node.pem", key = "node.key" }'
    listen = 'listen = "127.0.0.1:0"'
    return start_node(
        more=f'[mqtt.tls]\n{listen}\ncertificate = "node.pem"\nkey = "node.key"\n'
        f"[mqtt.websocket]\n{listen}\ntls = {files}\n"
    )


@pytest.fixture
def plain(start_node):
    """A node that listens for WebSocket without TLS."""
    return start_node(more='[mqtt.websocket]\nlisten = "127.0.0.1:0"\n')


def address(node, door):
    """(host, port) of a door, from the node's first line."""
    host, port = json.loads(node.process.lines[0])[door].rsplit(":", 1)
    return host, int(port)


def there_and_back(client, where):
    """Publishes to itself: bytes of every length of a frame's head, both ways."""
    received = queue.Queue()
    client.on_message = lambda _client, _data, message: received.put(message.payload)
    client.connect(*where)
    client.loop_start()
    try:
        until(client.is_connected, "paho connects")
        client.subscribe("doors/#", 1)
        for data in [0, 1, 100, 125, 126, 200, 65_535, 65_536, 300_000]:
            payload = bytes(number % 251 for number in range(data))
            client.publish("doors/a", payload, 1).wait_for_publish(20)
            assert received.get(timeout=20) == payload
    finally:
        client.disconnect()
        client.loop_stop()


def client_of(version, transport="tcp"):
    return paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=VERSIONS[version], transport=transport)


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_over_websocket(plain, version):
    client = client_of(version, "websockets")
    client.ws_set_options(path="/mqtt")
    there_and_back(client, address(plain, "mqtt_websocket"))
    plain.alive()


@pytest.mark.parametrize(("transport", "door"), [("tcp", "mqtt_tls"), ("websockets", "mqtt_websocket")])
def test_paho_over_tls(node, tmp_path, transport, door):
    client = client_of("5", transport)
    if transport == "websockets":
        client.ws_set_options(path="/mqtt")
    client.tls_set(str(tmp_path / "node.pem"))
    there_and_back(client, address(node, door))


def test_mosquitto_over_tls(node, tmp_path):
    host, port = address(node, "mqtt_tls")
    base = ["-h", host, "-p", str(port), "--cafile", str(tmp_path / "node.pem"), "-V", "mqttv5", "-t", "tls/a"]
    subprocess.run(["mosquitto_pub", *base, "-q", "2", "-r", "-m", "hello"], check=True, timeout=30)
    got = subprocess.run(["mosquitto_sub", *base, "-C", "1", "-W", "20"], check=True, capture_output=True, timeout=30)
    assert got.stdout.strip() == b"hello"
    # Who does not speak TLS is closed on, and who trusts another certificate does not connect.
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(connect_packet(5))
        read_to_end(connection)
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection((host, port), timeout=10) as connection:
        ssl.create_default_context().wrap_socket(connection, server_hostname=host)
    node.alive()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("Sec-WebSocket-Protocol: mqtt\r\n", 101),
        ("Sec-WebSocket-Protocol: mqtt\r\nOrigin: http://localhost:8080\r\n", 101),
        ("Sec-WebSocket-Protocol: mqtt\r\nOrigin: http://evil.example\r\n", 403),
        ("Sec-WebSocket-Protocol: chat\r\n", 400),
    ],
)
def test_handshakes_are_answered(plain, more, status):
    with socket.create_connection(address(plain, "mqtt_websocket"), timeout=10) as connection:
        connection.sendall(HANDSHAKE.format(more=more).encode())
        answer = connection.recv(4096)
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
        if status == 101:
            # A text is not MQTT: closed with 1003.
            connection.sendall(b"\x81\x81\0\0\0\0x")
            assert read_to_end(connection) == b"\x88\x02\x03\xeb"
    plain.alive()
