"""What a node knows, as clients of its MQTT and HTTP see it, with when they saw it: to hold against what its console says."""

import json
import threading
import time
from collections import Counter, defaultdict, deque
from datetime import datetime

from bus import Paho
from paho.mqtt.subscribeoptions import SubscribeOptions

KEPT_S = 60
# The test says here when it was sent: what was sent before has been heard when it comes.
MARKERS = "test/marker"
GRADES = ("good", "uncertain", "bad")
WORSE = ("unstated", "good", "uncertain", "bad")


def grade_of(value):
    """How far a value may be trusted, by its own word."""
    if not isinstance(value, dict):
        return "unstated"
    if "v" in value and value.get("q") in GRADES:
        return value["q"]
    grades = [one["q"] for one in value.values() if isinstance(one, dict) and "v" in one and one.get("q") in GRADES]
    return max(grades, key=WORSE.index) if grades and len(grades) == len(value) else "unstated"


def millis(text):
    """A time as whole milliseconds since 1970, which is what a browser keeps of it."""
    when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(when.replace(microsecond=0).timestamp()) * 1000 + when.microsecond // 1000


class Series:
    """Values with since when each holds."""

    def __init__(self):
        self.values = deque()

    def add(self, at, value):
        self.values.append((at, value))
        while len(self.values) > 1 and self.values[1][0] < at - KEPT_S:
            self.values.popleft()

    def within(self, since, until):
        """What held at any time of a span."""
        values = list(self.values)
        first = max((i for i, (at, _) in enumerate(values) if at <= since), default=0)
        return [value for at, value in values[first:] if at <= until]


class Truth:
    """Looks at a node until it is closed; the node may be killed and started meanwhile."""

    def __init__(self, node):
        self.node = node
        self.lock = threading.Lock()
        self.topics, self.grades = defaultdict(Series), {}
        self.counts, self.groups = Series(), defaultdict(Series)
        self.below = defaultdict(Counter)
        self.answers = {path: Series() for path in ("/v1/status", "/v1/devices", "/v1/sessions?limit=1000", "/healthz")}
        self.over = threading.Event()
        self.memory_max = 0
        self.markers = deque(maxlen=10 * KEPT_S)
        # Spans in which nothing is heard: from the last message before a new connection to the first after it.
        self.deaf, self.heard_last = [], time.time()
        self.subscribe()
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def subscribe(self):
        """Reads all topics again, as after a start of the node."""
        with self.lock:
            self.grades.clear()
            self.below.clear()
            self.deaf.append([self.heard_last, float("inf")])
        self.client = Paho(self.node, name="truth")
        self.client.client.on_message = self.on_message
        # What is no last value is on no screen: the retain flag as it was published tells.
        self.client.client.subscribe("#", options=SubscribeOptions(qos=0, retainAsPublished=True))

    def on_message(self, client, data, message):
        at = self.heard_last = time.time()
        if self.deaf[-1][1] > at:
            self.deaf[-1][1] = at
        payload = bytes(message.payload)
        if message.topic == MARKERS:
            return self.markers.append((float(payload), at))
        try:
            value = json.loads(payload)
        except ValueError:
            value = payload.decode(errors="replace")
        with self.lock:
            if message.retain:
                self.take(at, message.topic, value if payload else None)

    def mark(self):
        """Says that it is now; where the node is away, nobody hears it."""
        self.client.client.publish(MARKERS, str(time.time()), 0)

    def heard(self, at):
        """When all was heard that was sent until then; none where it is not known yet. A busy machine hears late."""
        return next((heard for sent, heard in list(self.markers) if sent >= at), None)

    def was_deaf(self, since, until):
        """Whether a value of this span may have come and gone while nothing was heard."""
        return any(began <= until and since <= ended for began, ended in self.deaf[-8:])

    def take(self, at, topic, value):
        self.topics[topic].add(at, value)
        old, new = self.grades.get(topic), None if value is None else grade_of(value)
        if old == new:
            return
        if new is None:
            del self.grades[topic]
        else:
            self.grades[topic] = new
        levels = topic.split("/")
        for branch in ("", *("/".join(levels[:n]) for n in range(1, len(levels)))):
            below = self.below[branch]
            if old:
                below[old] -= 1
            if new:
                below[new] += 1
            series = self.groups[branch] if branch else self.counts
            series.add(at, {grade: below[grade] for grade in WORSE})

    def ask(self):
        while not self.over.wait(0.4):
            for path, series in self.answers.items():
                began = time.time()
                try:
                    status, answer = self.node.request(path, seconds=2)
                except OSError:
                    break
                if status in (200, 503):
                    series.add(began, answer)
            else:
                self.look_at_memory()

    def look_at_memory(self):
        try:
            with open(f"/proc/{self.node.process.process.pid}/statm") as file:
                self.memory_max = max(self.memory_max, int(file.read().split()[1]) * 4096)
        except OSError:
            pass  # it has just been killed

    def close(self):
        self.over.set()
        self.thread.join(5)
        self.client.close()
