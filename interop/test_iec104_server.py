"""`tieline iec104 server`: clients of another implementation interrogate a station, command it and learn of changes."""

import json
import socket
import ssl
import time

import pytest
from authority import Authority
from iec104 import Iec104Device, Path, Tunnel, tls_context
from node import BINARY, Node, tieline
from processes import Lines, Peer
from waiting import until

LIST = """name,type,index,scale,control,operate,mode,min,max
breaker,double-point,100,,5100,,select,,
switch,single-point,101,,5101,,,,
tap,step-position,110,,5110,,,,
current,normalized,201,400,5201,,direct,,
level,scaled,202,0.1,5202,,,0,100
voltage,short-float,200,,5200,,,,
bits,bitstring,210,,5210,,,,
energy,integrated-totals,300,,,,,,
"""
MONITORED = ["100=M_DP_NA_1", "101=M_SP_NA_1", "110=M_ST_NA_1", "201=M_ME_NA_1", "202=M_ME_NB_1", "200=M_ME_NC_1", "210=M_BO_NA_1", "300=M_IT_NA_1"]
COMMANDS = ["5100=C_DC_NA_1", "5101=C_SC_NA_1", "5110=C_RC_NA_1", "5201=C_SE_NA_1", "5202=C_SE_NB_1", "5200=C_SE_NC_1", "5210=C_BO_NA_1", "5999=C_SC_NA_1"]
COMMON_ADDRESS = 7
CONFIRMED, TERMINATED, SPONTANEOUS, REMOTE, LOCAL = 7, 10, 3, 11, 12


class Server(Lines):
    """A server of LIST on a free port."""

    def __init__(self, folder, *words, rows=LIST):
        points = folder / "station.csv"
        points.write_text(rows)
        super().__init__([BINARY, "iec104", "server", points, "--listen", "127.0.0.1:0", "--common-address", COMMON_ADDRESS, *words, "--json"])
        self.address = self.first()["listen"]
        self._answered = 1

    def ask(self, line):
        """Sends one line and returns its answer."""
        self.send(line)
        self._answered += 1
        return until(lambda: len(self.lines) >= self._answered and self.lines[self._answered - 1], self.said)

    def set(self, name, value):
        assert self.ask(f"set {name} {value}") == "ok"

    def written(self):
        said = [json.loads(line) for line in self.errors if line.startswith("{")]
        return [(event["point"], event["value"]) for event in said if event.get("event") == "written"]


class Client(Peer):
    """A controlling station of c104 that is connected."""

    def __init__(self, server, *words):
        super().__init__("c104_client", *words, server.address, str(COMMON_ADDRESS), *MONITORED, *COMMANDS)
        self.do("connect")
        until(lambda: self.do("state")["state"].startswith("OPEN"), self.said)

    def asdus(self, type_id, cause=None):
        """What came of a type: the cause with its bits, and the objects in hexadecimal digits."""
        found = [bytes.fromhex(asdu) for asdu in self.objects("asdu")]
        return [(asdu[2], asdu[6:].hex()) for asdu in found if asdu[0] == type_id and cause in (None, asdu[2])]

    def request(self, line, type_id, cause=None):
        """Does what a line says, and waits for its end. The library may miss on a busy machine that it came."""
        cause = TERMINATED if cause is None else cause
        before = len(self.asdus(type_id, cause))
        done = self.do(line)["done"]
        until(lambda: len(self.asdus(type_id, cause)) > before, lambda: f"{line}\n{self.said()}")
        return done

    def operate(self, line):
        """Commands again while the library says that there was no confirmation."""
        return any(self.do(f"command {line}")["done"] for _ in range(12))

    def refuses(self, line, type_id, cause=0x40 | CONFIRMED):
        return not self.request(f"command {line}", type_id, cause)

    def came(self):
        """The types and causes of all ASDUs."""
        return [(asdu[0], asdu[2]) for asdu in map(bytes.fromhex, self.objects("asdu"))]


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as server:
        yield server


@pytest.fixture
def client(server):
    with Client(server) as client:
        yield client


def test_a_client_interrogates_a_station(server, client):
    server.set("breaker", "on")
    server.set("switch", "on")
    server.set("tap", -7)
    server.set("current", -200)
    server.set("level", 12.5)
    server.set("voltage", 20.5)
    server.set("bits", 3735928559)
    server.set("energy", 12345)
    client.request("interrogate", 100)
    client.request("counters", 101)
    client.request("test", 107, CONFIRMED)
    assert client.asdus(3, 20) == [(20, "640000" + "02")]
    assert client.asdus(1, 20) == [(20, "650000" + "01")]
    values = client.do("values")["values"]
    assert values["101"] is True and values["100"] == "ON"
    assert (values["110"], values["201"], values["202"], values["200"], values["300"]) == (-7, -0.5, 125, 20.5, 12345)
    assert client.asdus(7, 20) == [(20, "d20000" + "efbeadde" + "00")]
    # A group of which the list has nothing.
    client.request("interrogate 3", 100)
    assert client.asdus(100)[-2:] == [(CONFIRMED, "000000" + "17"), (TERMINATED, "000000" + "17")]


def test_points_begin_at_their_values_and_follow_their_curves(tmp_path):
    rows = "name,type,index,value,curve,decimals\nvoltage,short-float,200,20.5,,\ncurrent,short-float,204,,ramp(0 1000 7s),0\n"
    with Server(tmp_path, rows=rows) as server, Client(server) as client:
        client.request("interrogate", 100)
        assert any("c80000" + "0000a441" + "00" in objects for _, objects in client.asdus(13, 20)), client.said()
        # One that moves reports by itself.
        moved = lambda: [objects for _, objects in client.asdus(13, SPONTANEOUS) + client.asdus(36, SPONTANEOUS)]
        until(lambda: len({objects for objects in moved() if objects.startswith("cc0000")}) > 2, client.said)


def test_changes_reach_all_clients_with_their_time(server, client):
    with Client(server) as other:
        server.set("switch", "on")
        server.set("voltage", 1.5)
        for one in client, other:
            until(lambda: one.asdus(30, LOCAL) and one.asdus(36, LOCAL), one.said)
            [(_, switch)] = one.asdus(30, LOCAL)
            assert switch.startswith("650000" + "01") and len(switch) == 22
            [(_, voltage)] = one.asdus(36, LOCAL)
            assert voltage.startswith("c80000" + "0000c03f" + "00")
    server.set("switch", "off")
    until(lambda: len(client.asdus(30, LOCAL)) == 2, client.said)


@pytest.mark.parametrize(
    ("command", "point", "value"),
    [
        ("5100 on select", "breaker", 2),
        ("5101 on", "switch", True),
        ("5101 on select", "switch", True),
        ("5110 higher", "tap", 1),
        ("5201 -0.5", "current", -200),
        ("5202 125", "level", 12.5),
        ("5200 1.5 select", "voltage", 1.5),
        ("5210 3735928559", "bits", 3735928559),
    ],
)
def test_commands_move_points(server, client, command, point, value):
    assert client.operate(command), client.said()
    until(lambda: server.written()[:1] == [(point, value)], server.said)
    type_ids = {5100: (46, 31), 5101: (45, 30), 5110: (47, 32), 5201: (48, 34), 5202: (49, 35), 5200: (50, 36), 5210: (51, 33)}
    asked, changed = type_ids[int(command.split()[0])]
    # The confirmation of the select, then of the execute, the change, the termination.
    expect = [(asked, CONFIRMED), (changed, REMOTE), (asked, TERMINATED)]
    expect = [(asked, CONFIRMED)] * command.endswith("select") + expect
    runs = lambda: [client.came()[at : at + len(expect)] for at in range(len(client.came()))]
    until(lambda: expect in runs(), client.said)


def test_commands_are_refused_with_a_cause(server, client):
    # Select is required; it is not taken; outside the limits; no such object.
    assert client.refuses("5100 on", 46)
    assert client.refuses("5201 0.5 select", 48)
    assert client.refuses("5202 1001", 49)
    assert client.refuses("5999 on", 45, 0x40 | 47)
    assert server.written() == []


def test_a_selection_ends_with_time(tmp_path):
    with Server(tmp_path, "--select-timeout", "1s") as server, Raw(server) as raw:
        raw.start()
        select, execute = "2e0106000700ec130082", "2e0106000700ec130002"
        assert raw.ask(select) == "2e0107000700ec130082"
        time_of_select = time.monotonic()
        # The time-out is what is waited for.
        until(lambda: time.monotonic() - time_of_select > 1.2, "time")
        assert raw.ask(execute) == "2e0147000700ec130002"
        assert raw.ask(select) == "2e0107000700ec130082"
        assert raw.ask(execute) == "2e0107000700ec130002"


def test_the_clock_is_set(server, client):
    client.request("clock", 103, CONFIRMED)


def test_counters_are_frozen(server, client):
    server.set("energy", 100)
    client.request("counters freeze_reset", 101)
    server.set("energy", 130)
    client.request("counters", 101)
    # What was frozen, with the number of the freeze; then what was counted since.
    assert client.asdus(15, 37) == [(37, "2c0100" + "64000000" + "01")]
    client.request("counters freeze", 101)
    client.request("counters", 101)
    assert client.asdus(15, 37)[-1] == (37, "2c0100" + "1e000000" + "02")


class Raw:
    """A client of bare bytes: it keeps sequence numbers, and nothing else."""

    def __init__(self, server):
        host, port = server.address.rsplit(":", 1)
        self.connection = socket.create_connection((host, int(port)), timeout=10)
        self.sent = self.received = 0

    def read(self):
        """The next frame; none at the end of the connection."""
        head = self._exactly(2)
        return head and head + self._exactly(head[1])

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.connection.recv(count - len(data))
            except ConnectionError:
                return b""
            if not more:
                return b""
            data += more
        return data

    def start(self):
        self.connection.sendall(bytes.fromhex("680407000000"))
        assert self.read().hex() == "68040b000000"

    def send(self, asdu):
        """Sends an ASDU."""
        data = bytes.fromhex(asdu)
        numbers = (self.sent << 1).to_bytes(2, "little") + (self.received << 1).to_bytes(2, "little")
        self.sent += 1
        self.connection.sendall(bytes([0x68, 4 + len(data)]) + numbers + data)

    def next(self):
        """The next ASDU that comes."""
        while frame := self.read():
            if len(frame) > 6:
                self.received += 1
                return frame[6:].hex()
        raise AssertionError("the connection ended")

    def ask(self, asdu):
        """Sends an ASDU; the first that comes back."""
        self.send(asdu)
        return self.next()

    def ask_all(self, asdu):
        """Sends an ASDU; what comes back up to the termination."""
        answers = [self.ask(asdu)]
        while answers[-1][4:6] != f"{TERMINATED:02x}":
            answers.append(self.next())
        return answers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


@pytest.mark.parametrize(
    "bytes_of_a_client",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("680300000000"),
        bytes.fromhex("6804ffffffff"),
        # An ASDU before the start, a wrong sequence number, an acknowledgement of nothing.
        bytes.fromhex("680e0000000064010600070000000014"),
        bytes.fromhex("680407000000" + "680e0600000064010600070000000014"),
        bytes.fromhex("680407000000" + "680401000a00"),
    ],
)
def test_what_breaks_the_rules_ends_one_connection(server, client, bytes_of_a_client):
    with Raw(server) as raw:
        raw.connection.sendall(bytes_of_a_client)
        while raw.read():
            pass
    client.request("interrogate", 100)


def test_what_is_not_known_is_answered_with_its_cause(server):
    with Raw(server) as raw:
        raw.start()
        assert raw.ask("7a010d0007006400000102030405") == "7a016c0007006400000102030405"
        assert raw.ask("64010300070000000014") == "64016d00070000000014"
        assert raw.ask("64010600080000000014") == "64016e00080000000014"
        assert raw.ask("2d0106000700ff000001") == "2d016f000700ff000001"


def test_a_list_that_cannot_be_served_is_told(tmp_path):
    (tmp_path / "station.csv").write_text("name,type,index,control\na,single-point,1,5\nb,single-point,2,5\n")
    done = tieline("iec104", "server", tmp_path / "station.csv", check=False)
    assert done.returncode == 1 and "station.csv:3:1: control: found 5 a second time" in done.stderr, done


def test_a_node_reads_and_commands_a_station_by_the_same_list(tmp_path):
    with Server(tmp_path) as server:
        device = f'[device.served]\ntopic = "test/served"\nprotocol = "iec104"\naddress = "{server.address}"\npoints = "{tmp_path}/station.csv"\n'
        more = f'{device}poll = {{ counters = "1h" }}\niec104 = {{ common_address = {COMMON_ADDRESS}, command_end = "termination" }}\n'
        server.set("level", 12.5)
        server.set("energy", 7)
        with Node(tmp_path, more=more) as node:
            node.wait_value("test/served/level", v=12.5, q="good")
            node.wait_value("test/served/energy", v=7, q="good")
            server.set("voltage", 20.5)
            node.wait_value("test/served/voltage", v=20.5, q="good")
            assert node.command("test/served/breaker", True)["status"] == "success"
            node.wait_value("test/served/breaker", v=2, q="good")
            assert node.command("test/served/current", -100)["status"] == "success"
            node.wait_value("test/served/current", v=-100, q="good")
            until(lambda: server.written() == [("breaker", 2), ("current", -100)], server.said)


GROUPED = """name,type,index,value,group,cyclic
one,scaled,10,1,3,
two,scaled,11,2,3,true
other,scaled,20,3,16,
alone,scaled,30,4,,true
energy,integrated-totals,300,70,2,
power,integrated-totals,301,80,4,
"""


def test_groups_of_points_and_of_counters_are_asked_for(tmp_path):
    with Server(tmp_path, rows=GROUPED) as server, Client(server) as client, Raw(server) as raw:
        client.request("interrogate 3", 100)
        client.request("interrogate 16", 100)
        client.request("interrogate 1", 100)
        interrogated = [asdu for asdu in client.asdus(11) if asdu[0] != 1]
        assert interrogated == [(23, "0a0000" + "010000" + "020000"), (36, "140000" + "030000")], client.said()
        raw.start()
        asked = "650106000700000000"
        assert raw.ask_all(asked + "02") == ["650107000700000000" + "02", "0f0127000700" + "2c0100" + "4600000000", "65010a000700000000" + "02"]
        # A freeze and a reset of one group.
        assert raw.ask_all(asked + "84")[-1] == "65010a000700000000" + "84"
        server.set("energy", 75)
        server.set("power", 85)
        raw.ask_all(asked + "44")
        assert "0f0129000700" + "2d0100" + "0500000002" in raw.ask_all(asked + "04")
        assert "0f0127000700" + "2c0100" + "4b00000000" in raw.ask_all(asked + "02")


def test_cyclic_points_are_sent_at_intervals(tmp_path):
    with Server(tmp_path, "--cyclic", "200ms", rows=GROUPED) as server, Client(server) as client:
        until(lambda: len(client.asdus(11, 1)) > 3, client.said)
        assert {objects for _, objects in client.asdus(11, 1)} == {"0b0000" + "020000" + "1e0000" + "040000"}, client.said()
        server.set("alone", 9)
        until(lambda: any(objects.endswith("1e0000" + "090000") for _, objects in client.asdus(11, 1)), client.said)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("a,scaled,1,17,", 'station.csv:2:1: group: found "17", expected a whole number from 1 to 16 for this type'),
        ("a,integrated-totals,1,5,", 'station.csv:2:1: group: found "5", expected a whole number from 1 to 4 for this type'),
        ("a,integrated-totals,1,,true", "cyclic: found \"true\", expected false: counters are not sent at intervals"),
    ],
)
def test_groups_that_do_not_exist_are_told(tmp_path, row, told):
    (tmp_path / "station.csv").write_text(f"name,type,index,group,cyclic\n{row}\n")
    done = tieline("iec104", "server", tmp_path / "station.csv", check=False)
    assert done.returncode == 1 and told in done.stderr, done


def test_the_connections_of_a_group_share_what_is_to_be_told(tmp_path):
    with Server(tmp_path, "--redundancy", "127.0.0.1") as server:
        server.set("switch", "on")
        with Client(server, "--muted") as one, Client(server, "--muted") as other:
            switched = lambda client: [objects[:8] for _, objects in client.asdus(30, LOCAL)]
            # What happened before there was a client is kept.
            one.do("start")
            until(lambda: switched(one) == ["650000" + "01"], one.said)
            server.set("switch", "off")
            until(lambda: switched(one) == ["650000" + "01", "650000" + "00"], one.said)
            # It is not acknowledged yet, and is sent again on the other connection; then comes what happened meanwhile.
            one.kill()
            server.set("voltage", 7.5)
            assert other.came() == []
            other.do("start")
            until(lambda: other.asdus(36, LOCAL), other.said)
            assert switched(other)[-1] == "650000" + "00", other.said()
            with Client(server, "--muted") as third:
                # One is started at a time: the one before is closed.
                third.do("start")
                until(lambda: not other.do("state")["state"].startswith("OPEN") or third.do("state")["state"] == "OPEN", third.said)
                before = len(other.came())
                server.set("switch", "on")
                until(lambda: "650000" + "01" in switched(third), third.said)
                assert len([objects for objects in switched(other)[before:] if objects == "650000" + "01"]) == 0
                third.request("interrogate", 100)


def test_a_node_with_two_connections_gets_each_change_of_a_group_once(tmp_path):
    with Server(tmp_path, "--redundancy", "any") as server, Path(server.address) as one, Path(server.address) as other:
        paths = {path.address: path for path in (one, other)}
        points = [("voltage", "short-float", 200), ("switch", "single-point", 101)]
        device = Iec104Device("bay", one.address, points, standby=[other.address])
        with Node(tmp_path, device) as node:
            node.wait_value(device.point("voltage"), v=0, q="good")
            connections = lambda: node.request(f"/v1/devices/{device.topic}")[1]["stats"].get("connections", [])
            in_state = lambda state: [found["address"] for found in connections() if found["state"] == state]
            until(lambda: in_state("started") and in_state("standby"), connections)
            [started] = in_state("started")
            paths[started].passes[0] = False
            server.set("voltage", 1.5)
            node.wait_value(device.point("voltage"), v=1.5)
            paths[started].passes[1] = False
            server.set("voltage", 2.5)
            server.set("voltage", 3.5)
            paths[started].cut()
            until(lambda: in_state("started") not in ([started], []), connections, 40)
            server.set("voltage", 4.5)
            node.wait_history(device.point("voltage"), v=4.5)
            values = [row["v"] for row in node.history(device.point("voltage")) if row["v"]]
            assert sorted(set(values)) == [1.5, 2.5, 3.5, 4.5] and values.count(1.5) == 1, values


def test_groups_of_clients_that_do_not_fit_are_told(tmp_path):
    (tmp_path / "station.csv").write_text(LIST)
    for words, told in [
        (["127.0.0.1", "127.0.0.1"], "--redundancy with 127.0.0.1 a second time"),
        (["any", "any"], "--redundancy any a second time"),
        (["here"], "expected IP addresses, as in 10.0.0.1,10.0.0.2, or any"),
    ]:
        flags = [word for group in words for word in ("--redundancy", group)]
        done = tieline("iec104", "server", tmp_path / "station.csv", *flags, check=False)
        assert done.returncode != 0 and told in done.stderr, done


def test_tls(tmp_path):
    Authority(tmp_path).issue("server", names="IP:127.0.0.1").issue("client")
    files = lambda name: ["--tls-cert", tmp_path / f"{name}.pem", "--tls-key", tmp_path / f"{name}.key", "--tls-ca", tmp_path / "authority.pem"]
    with Server(tmp_path, *files("server")) as server:
        server.set("voltage", 1.5)
        with Tunnel(server.address, tls_context(tmp_path)) as tunnel, Client(tunnel) as client:
            client.request("interrogate", 100)
            assert client.do("values")["values"]["200"] == 1.5
        # A client without a certificate is refused.
        with Tunnel(server.address, tls_context(tmp_path, shows_certificate=False)) as tunnel, pytest.raises(ssl.SSLError):
            with tunnel.connect() as connection:
                connection.sendall(bytes.fromhex("680407000000"))
                connection.recv(1)
        # Without TLS nothing is answered.
        with Raw(server) as raw:
            raw.connection.sendall(bytes.fromhex("680407000000"))
            assert b"\x0b" not in (raw.read() or b"")[2:3]
        more = 'transport = "tls"\ntls = { certificate = "client.pem", key = "client.key", authorities = "authority.pem" }'
        device = Iec104Device("bay", server.address, [("voltage", "short-float", 200)], more=more)
        with Node(tmp_path, device) as node:
            node.wait_value(device.point("voltage"), v=1.5, q="good")
    done = tieline("iec104", "server", tmp_path / "station.csv", "--tls-ca", tmp_path / "authority.pem", check=False)
    assert done.returncode == 1 and "TLS needs --tls-cert and --tls-key" in done.stderr, done


def faults(folder, *tables, more=""):
    """The words of a server whose station has these faults."""
    path = folder / "faults.toml"
    path.write_text("\n".join([more, *(f"[[faults]]\n{table}" for table in tables)]))
    return ["--faults", path]


ALWAYS = "at = '0s'\nfor = '1d'"
INTERROGATION, COMMAND = "64010600070000000014", "2d0106000700ed130001"


def test_a_station_refuses_garbles_and_is_late(tmp_path):
    with Server(tmp_path, *faults(tmp_path, f"kind = 'refuse'\n{ALWAYS}")) as server, Raw(server) as raw:
        raw.start()
        assert raw.ask(INTERROGATION) == "64014700070000000014"
        assert raw.ask(COMMAND) == "2d0147000700ed130001"
        assert raw.ask("660105000700650000") == "66016f000700650000"
        # What changes is told all the same.
        server.set("voltage", 1.5)
        assert raw.next().startswith("24010c000700")
        assert server.written() == []
    words = faults(tmp_path, f"kind = 'slow'\nby = '400ms'\n{ALWAYS}", more="delay = '100ms'")
    with Server(tmp_path, *words) as server, Raw(server) as raw:
        raw.start()
        began = time.monotonic()
        assert raw.ask(COMMAND) == "2d0107000700ed130001"
        assert time.monotonic() - began >= 0.5
        until(lambda: server.written() == [("switch", True)], server.said)
    with Server(tmp_path, *faults(tmp_path, f"kind = 'garbage'\n{ALWAYS}")) as server, Raw(server) as raw:
        raw.start()
        raw.send(INTERROGATION)
        noise = raw.connection.recv(64)
        assert len(noise) == 16 and noise[0] != 0x68, noise
    # It hangs: connections stay, and nothing is said, not of the link either.
    with Server(tmp_path, *faults(tmp_path, f"kind = 'no_answer'\n{ALWAYS}")) as server, Raw(server) as raw:
        raw.connection.sendall(bytes.fromhex("680407000000"))
        raw.connection.settimeout(1.5)
        with pytest.raises(TimeoutError):
            raw.connection.recv(1)


@pytest.mark.parametrize(("kind", "after"), [("no_answer", 12.5), ("restart", 0)])
def test_a_node_loses_a_station_that_hangs_or_restarts(tmp_path, kind, after):
    # Again and again, so that a busy machine may miss one.
    words = faults(tmp_path, f"kind = '{kind}'\nat = '8s'\nevery = '30s'\nfor = '6s'", more="delay = '10ms'\ndelay_jitter = '20ms'")
    points = [("level", "scaled", 202, {"scale": "0.1", "control": "5202", "mode": "direct"})]
    with Server(tmp_path, *words) as server:
        device = Iec104Device("bay", server.address, points, t1="1s", t2="500ms", t3="1s")
        with Node(tmp_path, device) as node:
            node.wait_value(device.point("level"), v=0, q="good")
            assert node.command(device.point("level"), 12.5)["status"] == "success"
            node.wait_value(device.point("level"), v=12.5, q="good")
            node.wait_state(device, "away", seconds=60)
            # A station that restarts begins again.
            node.wait_value(device.point("level"), v=after, q="good", seconds=60)


def test_values_that_a_station_calls_bad_have_flags(tmp_path):
    tables = [f"kind = 'bad'\npoints = ['{name}']\nreason = '{why}'\n{ALWAYS}" for name, why in [("voltage", "offline"), ("level", "local_forced")]]
    with Server(tmp_path, *faults(tmp_path, *tables)) as server, Client(server) as client:
        client.request("interrogate", 100)
        assert client.asdus(13, 20) == [(20, "c80000" + "00000000" + "80")], client.said()
        assert client.asdus(11, 20) == [(20, "ca0000" + "0000" + "20")], client.said()
