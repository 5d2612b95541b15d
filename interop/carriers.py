"""Bridges between plain TCP, which the peers speak, and TLS (OpenSSL), UDP and serial lines, which they do not.

Each bridge has a far side, where our binary is, and passes bytes on to a TCP peer. `flags` are the flags of our binary.
"""

import os
import pty
import socket
import ssl
import struct
import subprocess
import threading
import time
import tty

FRAME_HEADER = 10


def certificate(folder, name):
    """A self-signed certificate for 127.0.0.1 and its key, made by OpenSSL."""
    files = [folder / f"{name}.pem", folder / f"{name}.key"]
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "60", "-subj", f"/CN={name}"]
    words += ["-addext", f"subjectAltName=IP:127.0.0.1,DNS:{name}"]
    made = ["openssl", "req", "-x509", *words, "-out", files[0], "-keyout", files[1]]
    subprocess.run(made, check=True, capture_output=True)
    return files


def frame_bytes(head):
    """Bytes of the link frame that begins so."""
    user = head[2] - 5
    return FRAME_HEADER + user + 2 * (-(-user // 16))


class Passing:
    """Passes bytes between two ends, each a way to read and a way to write, until either ends."""

    def __init__(self, one, other):
        self.ends, self.is_over = (one, other), False
        for source, sink in ((one, other), (other, one)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while data := source.read():
                sink.write(data)
        except OSError:
            pass
        self.is_over = True
        for end in self.ends:
            end.close()


class Stream:
    """A connected socket, of TCP or TLS."""

    def __init__(self, connection):
        self.connection = connection

    def read(self):
        return self.connection.recv(65536)

    def write(self, data):
        self.connection.sendall(data)

    def close(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()


class Line:
    """The far end of a serial line."""

    def __init__(self, end):
        self.end = end

    def read(self):
        while True:
            try:
                return os.read(self.end, 65536)
            except OSError:  # nobody has the near end open
                time.sleep(0.01)

    def write(self, data):
        os.write(self.end, data)

    def close(self):
        pass


class Datagrams:
    """Whole link frames to and from one peer, kept as a capture."""

    def __init__(self, sock, peer, capture=None):
        self.sock, self.peer, self.capture, self.waiting = sock, peer, capture, b""

    def read(self):
        data, self.peer = self.sock.recvfrom(65536)
        if self.capture:
            self.capture.datagram(self.peer[1], self.sock.getsockname()[1], data)
        return data

    def write(self, data):
        self.waiting += data
        # What comes before we know to whom goes with what comes after.
        while self.peer and len(self.waiting) >= FRAME_HEADER and len(self.waiting) >= frame_bytes(self.waiting):
            whole = frame_bytes(self.waiting)
            frame, self.waiting = self.waiting[:whole], self.waiting[whole:]
            self.sock.sendto(frame, self.peer)
            if self.capture:
                self.capture.datagram(self.sock.getsockname()[1], self.peer[1], frame)

    def close(self):
        pass


class Capture:
    """A pcap file (link type raw IPv4) of datagrams."""

    def __init__(self, path):
        self.file = path.open("wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        self.lock = threading.Lock()

    def datagram(self, source, target, payload):
        udp = struct.pack("!HHHH", source, target, 8 + len(payload), 0) + payload
        loopback = socket.inet_aton("127.0.0.1")
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0, loopback, loopback)
        seconds = time.time()
        head = struct.pack("<IIII", int(seconds), int(seconds % 1 * 1e6), len(ip + udp), len(ip + udp))
        with self.lock:
            self.file.write(head + ip + udp)
            self.file.flush()


def tcp(address):
    """A connection to a peer, without delay."""
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Stream(connection)


def accepting(handle):
    """Listens on a free port and hands every connection on; the address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


class Gate:
    """Passes connections on to a TCP peer, and counts them."""

    def __init__(self, target):
        self.target, self.connections, self.passing = target, 0, []
        self.address = accepting(self._pass)

    def _pass(self, connection):
        self.connections += 1
        self.passing.append(Passing(Stream(connection), tcp(self.target)))

    def open(self):
        """Connections that have not ended."""
        return sum(not passing.is_over for passing in self.passing)


class Tls:
    """TLS with mutual self-signed certificates, by OpenSSL."""

    name = "tls"

    def __init__(self, folder):
        self.ours, self.theirs = certificate(folder, "ours"), certificate(folder, "theirs")
        self.flags = ["--over", "tls", "--tls-cert", self.ours[0], "--tls-key", self.ours[1], "--tls-pin", self.theirs[0]]

    def context(self, server, version=None):
        side = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(side)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_cert_chain(*self.theirs)
        context.load_verify_locations(self.ours[0])
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def to_outstation(self, address):
        """Where our master connects to reach a peer's outstation."""
        context = self.context(server=True)

        def handle(connection):
            try:
                secured = context.wrap_socket(connection, server_side=True)
            except OSError:
                return
            Passing(Stream(secured), tcp(address))

        return accepting(handle)

    def to_ours(self, address):
        """Where a peer's master connects to reach our outstation at an address."""
        context = self.context(server=False)

        def handle(connection):
            secured = context.wrap_socket(tcp(address).connection)
            Passing(Stream(connection), Stream(secured))

        return accepting(handle)


class Udp:
    """Datagrams."""

    name = "udp"

    def __init__(self, folder):
        self.flags = ["--over", "udp"]
        self.path = folder / "udp.pcap"
        self.capture = Capture(self.path)
        self.port = None

    def to_outstation(self, address):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        # The first datagram says who our master is.
        first = Datagrams(sock, None, self.capture)
        threading.Thread(target=lambda: Passing(first, tcp(address)), daemon=True).start()
        return f"127.0.0.1:{self.port}"

    def to_ours(self, address):
        host, port = address.rsplit(":", 1)
        self.port = int(port)

        def handle(connection):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(("127.0.0.1", 0))
            Passing(Stream(connection), Datagrams(sock, (host, int(port)), self.capture))

        return accepting(handle)


class Serial:
    """A serial line, as a pair of pseudo-terminals."""

    name = "serial"

    def __init__(self, folder):
        self.flags = ["--over", "serial", "--baud", "115200"]
        self.far, near = pty.openpty()
        tty.setraw(near)
        self.path = os.ttyname(near)
        os.close(near)

    def to_outstation(self, address):
        Passing(Line(self.far), tcp(address))
        return self.path

    def to_ours(self, _address):
        return accepting(lambda connection: Passing(Stream(connection), Line(self.far)))


class Gateway:
    """Several outstations behind one connection, told apart by the destination of each frame."""

    def __init__(self, connection, addresses):
        self.centre = Stream(connection)
        self.drops = {address: tcp(target) for address, target in addresses.items()}
        for drop in self.drops.values():
            threading.Thread(target=self._up, args=(drop,), daemon=True).start()
        threading.Thread(target=self._down, daemon=True).start()

    def _down(self):
        for frame in frames(self.centre):
            drop = self.drops.get(struct.unpack_from("<H", frame, 4)[0])
            if drop:
                drop.write(frame)
        for drop in self.drops.values():
            drop.close()

    def _up(self, drop):
        try:
            for frame in frames(drop):
                self.centre.write(frame)
        except OSError:
            pass


def frames(end):
    """The whole link frames that come."""
    waiting = b""
    try:
        while data := end.read():
            waiting += data
            while len(waiting) >= FRAME_HEADER and len(waiting) >= frame_bytes(waiting):
                whole = frame_bytes(waiting)
                yield waiting[:whole]
                waiting = waiting[whole:]
    except OSError:
        pass
