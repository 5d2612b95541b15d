"""IEC 60870-5-104 stations of a node under test, and a station of bare bytes."""

import select
import socket
import ssl
import threading

from listed import ListedDevice
from waiting import until


class Iec104Device(ListedDevice):
    """One `[device.NAME]` that speaks IEC 60870-5-104. Points are rows of name, type, index and further columns by name."""

    COLUMNS = ["name", "type", "index", "common_address", "scale", "offset", "writable", "control", "operate", "mode", "qualifier"]
    COLUMNS += ["min", "max", "states"]

    def __init__(self, name, address, points, poll=None, more="", **iec104):
        super().__init__(name, points)
        self.address, self.poll, self.more = address, poll or {}, more
        self.iec104 = {"common_address": 7, "response_timeout": "2s", **iec104}

    def toml(self):
        lines = [f"[device.{self.name}]", f'topic = "{self.topic}"', 'protocol = "iec104"', f'address = "{self.address}"']
        lines += [f'points = "{self.name}.csv"', self.more, f"[device.{self.name}.poll]", *self.keys(self.poll)]
        return "\n".join([*lines, f"[device.{self.name}.iec104]", *self.keys(self.iec104), ""])


START_ACT, START_CON, TEST_ACT, TEST_CON = (bytes([0x68, 4, code, 0, 0, 0]) for code in (0x07, 0x0B, 0x43, 0x83))


class Path:
    """One way to a station: connections are passed on, bytes are held back where a test says, and all of it can be cut."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        # What passes: to the station, from the station.
        self.passes, self.is_cut, self.ends = [True, True], False, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            station = socket.create_connection(self.target)
            self.ends += [client, station]
            for way, source, sink in ((0, client, station), (1, station, client)):
                threading.Thread(target=self._pass, args=(way, source, sink), daemon=True).start()

    def _pass(self, way, source, sink):
        try:
            while data := source.recv(65536):
                if self.passes[way]:
                    sink.sendall(data)
        except OSError:
            pass
        self._end(source, sink)

    @staticmethod
    def _end(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends all connections, and each that comes."""
        self.is_cut = True
        self._end(*self.ends)

    def mend(self):
        self.is_cut, self.passes = False, [True, True]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()
        self.listener.close()


def tls_context(folder, *, shows_certificate=True):
    """A client of TLS with `client.pem`, `client.key` and `authority.pem` of a folder."""
    context = ssl.create_default_context(cafile=f"{folder}/authority.pem")
    if shows_certificate:
        context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
    return context


class Tunnel:
    """A listener for one plain client at a time, whose bytes go on to `target` over TLS."""

    def __init__(self, target, context):
        host, port = target.rsplit(":", 1)
        self.target, self.context = (host, int(port)), context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, self.connect() as station:
                try:
                    self._pass(client, station)
                except OSError:
                    pass

    def connect(self):
        return self.context.wrap_socket(socket.create_connection(self.target), server_hostname=self.target[0])

    @staticmethod
    def _pass(client, station):
        while True:
            ready = [station] if station.pending() else select.select([client, station], [], [])[0]
            for source, sink in ((client, station), (station, client)):
                if source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    sink.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class RawStation:
    """A listener that answers as a test says; each connection is served by one call, with what it needs to talk."""

    def __init__(self, *connections):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.accepted, self.frames, self.errors = 0, [], []
        threading.Thread(target=self._serve, args=(connections,), daemon=True).start()

    def _serve(self, connections):
        for serve in connections:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection:
                try:
                    serve(Talk(self, connection))
                except OSError as error:
                    self.errors.append(error)

    def asdus(self, type_id):
        """What came of one type, without the frame."""
        return [frame[6:] for frame in list(self.frames) if len(frame) > 6 and frame[6] == type_id]

    def wait_asdus(self, type_id, count=1, seconds=15.0):
        found = lambda: self.asdus(type_id) if len(self.asdus(type_id)) >= count else None
        return until(found, lambda: f"{count} of type {type_id}: {self.frames}", seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class Talk:
    """One connection of a raw station: it keeps sequence numbers, and nothing else."""

    def __init__(self, station, connection):
        self.station, self.connection, self.sent, self.received = station, connection, 0, 0

    def read(self):
        """The next frame; none at the end of the connection."""
        head = self._exactly(2)
        if not head:
            return None
        frame = head + self._exactly(head[1])
        self.station.frames.append(frame)
        self.received += len(frame) > 6
        return frame

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                return b""
            data += more
        return data

    def raw(self, data):
        self.connection.sendall(data)

    def asdu(self, text):
        """Sends an ASDU, written in hexadecimal digits."""
        asdu = bytes.fromhex(text)
        numbers = (self.sent << 1).to_bytes(2, "little") + (self.received << 1).to_bytes(2, "little")
        self.sent += 1
        self.raw(bytes([0x68, 4 + len(asdu)]) + numbers + asdu)

    def start(self):
        """Starts data transfer, and answers the interrogation with one single point of address 10."""
        while frame := self.read():
            if frame == START_ACT:
                self.raw(START_CON)
            elif len(frame) > 6 and frame[6] == 100:
                self.asdu("64 01 07 00 07 00 00 00 00 14")
                self.asdu("01 01 14 00 07 00 0A 00 00 01")
                self.asdu("64 01 0A 00 07 00 00 00 00 14")
                return

    def until_closed(self):
        """Reads, and answers test frames, until the other side closes."""
        while frame := self.read():
            if frame == TEST_ACT:
                self.raw(TEST_CON)
