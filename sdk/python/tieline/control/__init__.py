"""Reserves devices, and commands many points in one call: docs/control.md. No dependencies.

with Client("http://127.0.0.1:8080", requester="optimizer").reserve("night", ["site/ahu1"], seconds=3600) as night:
    night.client.set({"site/ahu1/setpoint": 19}, confirm=True)
"""

import base64
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

__all__ = ["Client", "Failed", "NodeError", "PointResult", "Refused", "Reservation", "Result"]


LEASE_S = 60.0
RENEWALS = 4
"""How often a lease is renewed in its time."""


class NodeError(Exception):
    """The node gave no answer of this API: who asks may not, or the node is stopping. `status` is of HTTP."""

    def __init__(self, status, detail):
        super().__init__(f"{status}: {detail}")
        self.status, self.detail = status, detail


class Refused(Exception):
    """Nothing of a call was done: `reason` is a stable word, `detail` a sentence."""

    def __init__(self, reason, detail):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Failed(Exception):
    """A reservation was not granted: `info` as VOLTTRON's actuator agent says it, and `data`, as who is in the way."""

    def __init__(self, info, data):
        super().__init__(info)
        self.info, self.data = info, data


@dataclass(frozen=True)
class PointResult:
    """What became of one point: `status` is accepted, confirmed, unconfirmed, refused, unknown or would_send."""

    topic: str
    status: str
    more: dict = field(default_factory=dict)

    @property
    def is_done(self):
        """Whether the device has accepted it."""
        return self.status in ("accepted", "confirmed", "unconfirmed")

    @property
    def reason(self):
        """Why it was not done, as a stable word."""
        return self.more.get("reason")


@dataclass(frozen=True)
class Result:
    """What became of a call."""

    status: str
    points: list
    answer: dict

    @property
    def failed(self):
        """Topics that are not accepted or confirmed, each with its reason."""
        return {point.topic: point.reason for point in self.points if point.status not in ("accepted", "confirmed", "would_send")}


class Client:
    """One node, over HTTP. `requester` is the name under which this program reserves and commands.

    `timeout` is the time in seconds that the node may take for a call as a whole.
    """

    def __init__(self, url, *, requester=None, user=None, password=None, token=None, tls=None, timeout=300.0):
        self.url = url.rstrip("/") if "://" in url else f"http://{url}".rstrip("/")
        self.requester, self.tls, self.timeout = requester, tls, timeout
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        elif user is not None:
            shown = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {shown}"

    def reserve(
        self, task, devices=(), *, seconds=None, start=None, end=None, slots=None, priority="LOW", lease=LEASE_S, on_ended=None
    ):
        """Reserves devices from now (or `start`) for `seconds` (or until `end`), or the slots `(device, start, end)`.

        Times are texts of RFC 3339 or datetimes. Raises `Failed`.

        When this process ends without a `cancel`, the reservation ends after `lease` seconds, and its points are reverted:
        a thread renews the lease until then. None: it stays until its slots end. `on_ended` is called with the reservation
        when the node does not have it any more; it runs in that thread.
        """
        if slots is None:
            span = {"for": f"{round(seconds * 1000)}ms"} if seconds is not None else {"end": _time(end)}
            first = {} if start is None else {"start": _time(start)}
            slots = [{"device": device, **first, **span} for device in devices]
        else:
            slots = [[device, _time(first), _time(last)] for device, first, last in slots]
        asked = {"task": task, "priority": priority, "slots": slots}
        asked["lease"] = "none" if lease is None else f"{round(lease * 1000)}ms"
        answer = self._ask("/v1/reservations", asked)
        self._granted(answer)
        preempted = answer["data"] if isinstance(answer["data"], list) else []
        return Reservation(self, task, [tuple(loser) for loser in preempted], lease, on_ended)

    def renew(self, task):
        """Renews the leases of this requester, which has this reservation. Raises `Failed`."""
        self._granted(self._ask("/v1/reservations/renew", {"task": task}))

    def cancel(self, task, *, force=False):
        """Ends a reservation; what was commanded under it is reverted. Raises `Failed`."""
        self._granted(self._ask("/v1/reservations/cancel", {"task": task, "force": force}))

    def reservations(self):
        """All reservations."""
        return self._ask("/v1/reservations")["reservations"]

    def set(self, points, *, confirm=False, dry_run=False, timeout=None, mode=None):
        """Sets points: a dict, or pairs, of topics and values; None relinquishes. Raises `Refused` where nothing was taken."""
        pairs = points.items() if hasattr(points, "items") else points
        listed = [{"topic": topic, "value": value} | ({"mode": mode} if mode else {}) for topic, value in pairs]
        return self._call("/v1/set", {"points": listed}, confirm, dry_run, timeout)

    def revert(self, points=(), *, devices=(), confirm=False, dry_run=False, timeout=None):
        """Reverts points, and all points of devices that can be. Raises `Refused` where nothing was taken."""
        body = {"points": list(points), "devices": list(devices)}
        return self._call("/v1/revert", body, confirm, dry_run, timeout)

    def get(self, topics):
        """Last values by topic, and reasons by topic of those that have none."""
        answer = self._ask("/v1/get", {"topics": list(topics)}, named=False)
        return {topic["topic"]: topic["value"] for topic in answer["topics"]}, answer["errors"]

    def override_on(self, pattern, *, seconds=None, revert=False, staggered=False):
        """Takes what a pattern selects from all programs; what that is. Raises `Refused`."""
        body = {"pattern": pattern, "duration_s": seconds, "failsafe_revert": revert, "staggered_revert": staggered}
        return self._done("/v1/overrides", body, named=False).get("selects", [])

    def override_off(self, pattern=None):
        """Ends an override, or all. Raises `Refused`."""
        self._done("/v1/overrides/off", {"pattern": pattern}, named=False)

    def overrides(self):
        """Overrides that are on."""
        return self._ask("/v1/overrides")["overrides"]

    def place_tag(self, topic, kind, why):
        """Places a tag: `hold`, `do_not_operate` or `note`. It, and how many commands were out. Raises `Refused`."""
        answer = self._done("/v1/tags", {"topic": topic, "kind": kind, "why": why})
        return answer["tag"], answer["commands_out"]

    def lift_tag(self, number):
        """Lifts a tag. Raises `Refused`; `NodeError` where it is of somebody else."""
        self._done("/v1/tags/lift", {"id": number})

    def tags(self, topic=None):
        """Tags, all or those that hold for a device or a point."""
        query = "" if topic is None else "?" + urllib.parse.urlencode({"topic": topic})
        return self._ask("/v1/tags" + query)["tags"]

    def _call(self, path, body, confirm, dry_run, timeout):
        body |= {"confirm": confirm, "dry_run": dry_run}
        if timeout is not None:
            body["timeout_ms"] = round(timeout * 1000)
        answer = self._ask(path, body)
        if "reason" in answer:
            raise Refused(answer["reason"], answer.get("detail", ""))
        known = ("topic", "status")
        points = [
            PointResult(point["topic"], point["status"], {name: said for name, said in point.items() if name not in known})
            for point in answer.get("points", [])
        ]
        return Result(answer["status"], points, answer)

    @staticmethod
    def _granted(answer):
        if answer["result"] != "SUCCESS":
            raise Failed(answer["info"], answer["data"])

    def _done(self, path, body, named=True):
        answer = self._ask(path, body, named)
        if answer["status"] != "success":
            raise Refused(answer["reason"], answer.get("detail", ""))
        return answer

    def _ask(self, path, body=None, named=True):
        if body is not None and named and self.requester is not None:
            body["requester"] = self.requester
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout, context=self.tls) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            kind = error.headers.get_content_type()
            if kind == "application/json":
                return json.loads(text)
            detail = json.loads(text).get("detail", text) if kind == "application/problem+json" else text
            raise NodeError(error.code, detail) from None


class Reservation:
    """A reservation that was granted; at the end of a `with` block it is cancelled.

    `ended` is None while the node has it, and then why it has it no more, as `TASK_ID_DOES_NOT_EXIST`.
    """

    def __init__(self, client, task, preempted, lease=None, on_ended=None):
        self.client, self.task, self.preempted, self.ended = client, task, preempted, None
        self._on_ended, self._cancelled = on_ended, threading.Event()
        if lease is not None:
            threading.Thread(target=self._keep, args=(lease / RENEWALS,), name=f"lease of {task}", daemon=True).start()

    def cancel(self):
        """Ends it."""
        self._cancelled.set()
        self.client.cancel(self.task)

    def _keep(self, pause):
        while not self._cancelled.wait(pause):
            try:
                self.client.renew(self.task)
            except Failed as failed:
                if self._cancelled.is_set():
                    return
                self.ended = failed.info
                if self._on_ended is not None:
                    self._on_ended(self)
                return
            except (NodeError, OSError, ValueError):
                # The node may be back before the lease is over.
                continue

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.cancel()
        except Failed as failed:
            # It may be over by itself.
            if failed.info != "TASK_ID_DOES_NOT_EXIST" and kind is None:
                raise


def _time(moment):
    return moment.isoformat() if hasattr(moment, "isoformat") else moment
