"""Everything that the console says, held against what its node knows: console/README.md, Attributes."""

import json
import time

from truth import GRADES, WORSE, grade_of, millis

# A hung or silent node is marked within this time; so old may be what is shown as new.
MARKED_S = 5.0
# So late may be what the test itself hears, and so long may a browser take to draw on a busy machine.
SLACK_S = 1.0
# So long a page waits for what the test has to hear, where nothing comes that says that it has.
HEARD_S = 8.0
# So long a page may show what held between two looks of the test: its own next look comes within 2 s.
BETWEEN_S = 3.0
# A node that answers again is shown so within this time.
BACK_S = 20.0


class Outages:
    """When the node could not answer."""

    def __init__(self):
        self.spans = []

    def begin(self):
        self.spans.append([time.time(), float("inf")])

    def end(self):
        self.spans[-1][1] = time.time()

    def must_be_marked(self, at):
        return any(began + MARKED_S < at < ended for began, ended in self.spans)

    def over(self, at):
        """When what was sent until then can be heard: not while the node stands still that was to send it."""
        return max((ended for began, ended in self.spans if began - SLACK_S < at < ended), default=at)

    def must_be_live(self, at):
        return all(at < began or at > ended + BACK_S for began, ended in self.spans)


class Assertions:
    """Checks what a page said, and counts what was checked."""

    def __init__(self, truth, outages, began):
        self.truth, self.outages, self.began = truth, outages, began
        self.checked, self.wrong, self.waiting = {}, [], []
        # Since when each page shows something that the test has not seen.
        self.unseen = {}

    def take(self, pages, is_last=False):
        """Checks pages once the test has heard what the node had sent by then."""
        waiting, self.waiting = self.waiting + pages, []
        for seen in waiting:
            if is_last or self.is_ready(seen):
                self.page(seen)
            else:
                self.waiting.append(seen)

    def is_ready(self, seen):
        return "at" not in seen or self.truth.heard(seen["at"]) or time.time() > self.outages.over(seen["at"]) + HEARD_S

    def check(self, what, holds, told):
        self.checked[what] = self.checked.get(what, 0) + 1
        if not holds:
            self.wrong.append(f"{what}: {told}")

    def check_fact(self, what, holds, told, seen):
        """The same for what the test looks at from time to time, as the page does: either may see what the other misses."""
        key = (seen["view"], seen.get("filter"), what)
        if holds:
            self.unseen.pop(key, None)
        else:
            holds = seen["at"] - self.unseen.setdefault(key, seen["at"]) < BETWEEN_S
        self.check(what, holds, told)

    def page(self, seen):
        if "error" in seen:
            return self.check("no error of the page", False, seen["error"])
        at, root = seen["at"], seen["root"]
        where = f"{seen['view']} {seen.get('filter') or ''} at +{at - self.began:.1f} s"
        if self.outages.must_be_marked(at):
            return self.marked(seen, where)
        if self.outages.must_be_live(at) and at > self.began + BACK_S:
            self.check("a node that answers is live", root["link"] == "live", f"{where}: {root}")
        if root["link"] == "live":
            self.live(seen, where)

    def marked(self, seen, where):
        """Nothing is shown as if it were known."""
        root = seen["root"]
        self.check("a node that does not answer is marked", root["link"] in ("silent", "reconnecting", "connecting"), f"{where}: {root}")
        self.check("counts of a node that does not answer are unknown", root["counts"] == "unknown", f"{where}: {root}")
        self.check("the age is that of the data", float(root.get("ageMs", "inf")) >= 1000 * (MARKED_S - SLACK_S - 1), f"{where}: {root}")
        rows = [*seen["topics"], *seen["devices"], *seen["sessions"], *({"stale": one["groupStale"]} for one in seen["groups"])]
        for row in rows:
            self.check("rows of a node that does not answer are stale", row["stale"] == "true", f"{where}: {row}")

    def live(self, seen, where):
        since, until = seen["at"] - MARKED_S, max(seen["at"] + SLACK_S, self.truth.heard(seen["at"]) or 0)
        root = seen["root"]
        self.check("the age is small", float(root["ageMs"]) <= 1000 * MARKED_S, f"{where}: {root}")
        # Counts may have come and gone while the test heard nothing.
        was_deaf = self.truth.was_deaf(since, until)
        with self.truth.lock:
            self.counts(root, self.truth.counts.within(since, until), was_deaf, f"counts {where}")
            for row in seen["topics"]:
                if row["stale"] == "false" and not row["topic"].startswith("$"):
                    known = self.truth.topics[row["topic"]].within(since, until)
                    self.value(row, known, seen["at"], (since, until), where)
            for row in seen["groups"]:
                if row["groupStale"] == "false" and row["group"] in self.truth.groups:
                    self.group(row, self.truth.groups[row["group"]].within(since, until), was_deaf, where)
        self.facts(seen, since, until, where)

    def counts(self, said, known, was_deaf, where):
        if said["counts"] != "complete":
            return
        told = {grade: int(said[grade]) for grade in WORSE}
        if told in known or not was_deaf:
            self.check("counts by quality", told in known, f"{where}: {told}, known {known[-5:]}")
        self.check("the total", int(said["total"]) == sum(told.values()), f"{where}: {said}")

    def value(self, row, known, at, span, where):
        known = [value for value in known if value is not None]
        told = json.loads(row["value"]) if "value" in row else None
        if row["kind"] == "point":
            time_ms = millis(row["time"])
            found = any(self.is_shown(value, told, row, time_ms) for value in known)
            # A value of an older time came at any time of the span.
            came = span if time_ms / 1000 < span[0] else (time_ms / 1000, time_ms / 1000)
            if found or not self.truth.was_deaf(*came):
                self.check("value, quality, reasons and time", found, f"{where}: {row}, known {known[-3:]}")
            age = float(row["ageMs"]) / 1000
            self.check("the age of a value is its own", abs(at - time_ms / 1000 - age) <= SLACK_S + span[1] - at, f"{where}: {row}")
        elif told is not None and (told in known or not self.truth.was_deaf(*span)):
            self.check("value", told in known, f"{where}: {row}, known {known[-3:]}")
            quality = {grade_of(value) for value in known}
            self.check("quality", row["quality"].replace("none", "unstated") in quality, f"{where}: {row}, known {quality}")

    @staticmethod
    def is_shown(value, told, row, time_ms):
        """Whether a row shows this value. One that gives no time of its own has that of its arrival."""
        return (
            isinstance(value, dict)
            and (value.get("v"), value.get("q")) == (told, row["quality"])
            and sorted(value.get("why", [])) == sorted(json.loads(row["why"]))
            and ("t" not in value or millis(value["t"]) == time_ms)
        )

    def group(self, row, known, was_deaf, where):
        if was_deaf:
            return
        worst = {max((grade for grade in WORSE if counts[grade]), key=WORSE.index, default="unstated") for counts in known}
        told = row["groupQuality"].replace("none", "unstated")
        self.check("a group is as good as its worst member", told in worst or told == "unknown", f"{where}: {row}, known {worst}")
        if told in GRADES:
            self.check("counts of a group", {grade: int(row[grade]) for grade in WORSE} in known, f"{where}: {row}, known {known[-3:]}")

    def facts(self, seen, since, until, where):
        """What is asked for, and not pushed: it may be a poll older."""
        answers = {path: series.within(since - MARKED_S, until) for path, series in self.truth.answers.items()}
        root, status = seen["root"], answers["/v1/status"]
        if root.get("statusStale") == "false":
            for name, known in (
                ("node", [one["name"] for one in status]),
                ("devicesTotal", [one["devices"]["total"] for one in status]),
            ):
                if name in root:
                    self.check(f"status: {name}", root[name] in map(str, known), f"{where}: {root[name]}, known {known[-5:]}")
            if "history" in root:
                states = [one["history"]["state"] for one in status]
                self.check_fact("status: history", root["history"] in states, f"{where}: {root['history']}, known {states[-5:]}", seen)
            # These may change between two looks of the test.
            for name, known in (
                ("sessions", [one["sessions"] for one in status]),
                ("devicesOnline", [one["devices"]["online"] for one in status]),
            ):
                if known and name in root:
                    told = int(root[name])
                    self.check_fact(f"status: {name}", min(known) <= told <= max(known), f"{where}: {told}, known {known[-5:]}", seen)
        devices = [device for one in answers["/v1/devices"] for device in one["devices"]]
        for row in seen["devices"]:
            if row["stale"] == "false":
                known = {device["state"] for device in devices if device["topic"] == row["device"]}
                self.check("the state of a device", row["state"] in known, f"{where}: {row}, known {known}")
        sessions = [session for one in answers["/v1/sessions?limit=1000"] for session in one["sessions"]]
        for row in seen["sessions"]:
            if row["stale"] == "false":
                known = [session for session in sessions if session["client"] == row["client"]]
                self.check("sessions are there", bool(known), f"{where}: {row}")
                late = [session["late_ms"] for session in known]
                is_late = int(row["lateMs"]) > 0 or min(late, default=0) < 1000 * MARKED_S
                self.check("who does not read is late", is_late, f"{where}: {row}, known {late}")
