"""Files of a node that were damaged while it was not there: it starts, goes on with what is whole, and says what is lost."""

from bus import Paho
from waiting import until


def test_a_flipped_byte_in_the_ledger(start_node):
    node = start_node()
    with Paho(node) as client:
        for number in range(6):  # each waits for the disk: a batch of its own
            client.publish(f"kept/{number}", f"value {number}", 1, True)
    node.process.kill()
    (segment,) = [path for path in (node.data / "ledger").iterdir() if b"value 3" in path.read_bytes()]
    raw = bytearray(segment.read_bytes())
    raw[raw.index(b"value 3")] ^= 1
    segment.write_bytes(raw)
    node.start()
    found = [node.get(f"kept/{number}") for number in range(6)]
    assert found == ["value 0", "value 1", "value 2", None, "value 4", "value 5"]
    health = node.health()
    (told,) = [word for word in health["detail"] if "damaged" in word]
    assert "1 batches were lost" in told and f"{segment.name}.damaged" in told, health
    assert health["status"] == "ok"
    assert "tieline_ledger_lost_batches 1" in node.metrics()
    assert any("cannot be read" in line for line in node.process.errors), node.process.said()
    assert segment.with_name(f"{segment.name}.damaged").read_bytes() == raw
    # All was written again: the next start finds nothing wrong, and the file is still there for a look.
    until(lambda: not segment.exists(), lambda: list((node.data / "ledger").iterdir()))
    with Paho(node) as client:
        client.publish("kept/3", "again", 1, True)
    node.process.kill()
    node.start()
    health = node.health()
    assert (health["status"], health["detail"]) == ("ok", []), health
    assert node.get("kept/3") == "again" and node.get("kept/5") == "value 5"
    assert segment.with_name(f"{segment.name}.damaged").exists()
