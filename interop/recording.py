"""A proxy between a client and a server that writes what passes as a capture, which needs no privilege."""

import socket
import struct
import threading
import time
from pathlib import Path

SNAP_BYTES_MAX = 65535
SEGMENT_BYTES_MAX = 1400


class Capture:
    """A pcap file (link type raw IPv4) with TCP segments made up around each piece of stream."""

    def __init__(self, path):
        self.file = Path(path).open("wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP_BYTES_MAX, 101))
        self.lock = threading.Lock()

    def packet(self, source, target, sequence, acknowledged, flags, payload=b""):
        tcp = struct.pack("!HHIIBBHHH", source, target, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0) + payload
        data = 20 + len(tcp)
        loopback = socket.inet_aton("127.0.0.1")
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, data, 0, 0x4000, 64, 6, 0, loopback, loopback)
        seconds = time.time()
        head = struct.pack("<IIII", int(seconds), int(seconds % 1 * 1e6), data, data)
        with self.lock:
            self.file.write(head + ip + tcp)
            self.file.flush()


class Conversation:
    """One connection in a capture: its handshake, and from then on both sequences."""

    def __init__(self, capture, client, server):
        self.capture, self.ports, self.sent = capture, (client, server), [1, 1]
        self.lock = threading.Lock()
        capture.packet(client, server, 0, 0, 0x02)
        capture.packet(server, client, 0, 1, 0x12)
        capture.packet(client, server, 1, 1, 0x10)

    def passed(self, side, data):
        """Bytes that went from the client (side 0) or the server (side 1)."""
        with self.lock:
            for start in range(0, len(data), SEGMENT_BYTES_MAX):
                piece = data[start : start + SEGMENT_BYTES_MAX]
                ports = self.ports if side == 0 else self.ports[::-1]
                self.capture.packet(*ports, self.sent[side], self.sent[1 - side], 0x18, piece)
                self.sent[side] += len(piece)


class RecordingProxy:
    """Listens on a free port and passes every connection on to `target`."""

    def __init__(self, target, path):
        host, port = target.rsplit(":", 1)
        self.target, self.path = (host, int(port)), path
        self.capture = Capture(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, (_, client_port) = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            conversation = Conversation(self.capture, client_port, self.port)
            for side, source, sink in ((0, client, server), (1, server, client)):
                threading.Thread(target=self._pass, args=(conversation, side, source, sink), daemon=True).start()

    @staticmethod
    def _pass(conversation, side, source, sink):
        try:
            while data := source.recv(65536):
                conversation.passed(side, data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
