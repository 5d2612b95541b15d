"""Locks of MQTT sessions over paho-mqtt (2.x), MQTT 5: docs/locks.md.

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    locks = Locks(client)
    client.connect("localhost")
    client.loop_start()
    with locks.hold("plant/writer", wait="30s") as lock:
        lock.publish("plant/mode", "auto", retain=True)

``Locks`` takes over the client's callbacks for PUBACK, connecting and disconnecting, and calls those that were set before it. Its calls
wait for the network loop, so no callback of the client may use them.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from typing import Any, Literal

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .client.errors import Denied, Refused, TielineError, Unknown, Unreachable

__all__ = ["Lock", "Locks"]

Scope = Literal["session", "connection"]
#: The user property of a message that depends on a lock.
PROPERTY = "tieline-if-lock"
#: PUBACK: not authorized.
NOT_AUTHORIZED = 0x87
_CALLBACKS = ("on_connect", "on_disconnect", "on_publish")


class Lock:
    """A lock that this session has: until it is released or lost."""

    def __init__(self, locks: Locks, name: str, scope: Scope, on_lost: Callable[[Lock], None] | None):
        self._locks, self.name, self.scope, self._on_lost = locks, name, scope, on_lost
        #: The number of the acquisition: a fencing token.
        self.number = 0
        #: Why it was lost; None before.
        self.lost: str | None = None
        self.is_held = False

    @property
    def user_property(self) -> tuple[str, str]:
        """The user property of messages that the node accepts only while the lock is held by this acquisition."""
        return PROPERTY, f"{self.name}#{self.number}"

    def publish(self, topic: str, value: str | bytes, *, retain: bool = False) -> None:
        """Publishes if the lock is held; returns when the node has the message. ``Refused`` if the lock is not held any more."""
        sent = self._locks._send(topic, value, _properties(UserProperty=self.user_property), retain)
        _wait(sent, self._locks.timeout)

    def release(self) -> None:
        """Releases it. While the connection is away: as soon as it is back."""
        if answer := self._locks._release(self):
            _wait(answer, self._locks.timeout)

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.is_held, self.lost = False, why
            if self._on_lost is not None:
                self._on_lost(self)


class _Hold:
    """A block that has a lock."""

    def __init__(self, locks: Locks, take: Callable[[], Future[Lock]]):
        self._locks, self._take = locks, take
        self._lock: Lock | None = None

    def __enter__(self) -> Lock:
        self._locks._wait_connected()
        self._lock = self._take().result()
        return self._lock

    def __exit__(self, *_: object) -> None:
        if self._lock:
            self._lock.release()

    async def __aenter__(self) -> Lock:
        await asyncio.to_thread(self._locks._wait_connected)
        lock = await asyncio.wrap_future(self._take())
        self._lock = lock
        return lock

    async def __aexit__(self, *_: object) -> None:
        if self._lock:
            await asyncio.to_thread(self._lock.release)


class Locks:
    """The locks of a client of paho-mqtt. ``reply`` is the topic of answers, which the client must be allowed to read.

    Locks are kept: after a reconnection the node is asked for each of them again, and one that has another number, or is of somebody
    else, is lost. ``timeout`` is the time in seconds for a connection, and for an answer that does not wait for another session.
    """

    def __init__(self, client: Any, *, reply: str | None = None, timeout: float = 30.0):
        self._client, self.timeout = client, timeout
        self._reply = reply or f"reply/{uuid.uuid4().hex}"
        #: Never held while the client is called, which calls back with locks of its own.
        self._guard = threading.RLock()
        self._connected = threading.Event()
        self._taking: dict[str, tuple[Lock, Future[Lock]]] = {}
        self._held: dict[str, Lock] = {}
        self._releasing: dict[str, Future[None]] = {}
        #: Names to release when the connection is back.
        self._owed: set[str] = set()
        self._acks: dict[int, Future[None]] = {}
        self._early: dict[int, Any] = {}
        self._sending = 0
        self._before = {name: getattr(client, name) for name in _CALLBACKS}
        for name in _CALLBACKS:
            setattr(client, name, getattr(self, f"_{name}"))
        client.message_callback_add(self._reply, self._on_answer)
        if client.is_connected():
            client.subscribe(self._reply, qos=1)
            self._connected.set()

    def take(
        self, name: str, *, wait: str | None = None, scope: Scope = "session", on_lost: Callable[[Lock], None] | None = None
    ) -> Lock:
        """Takes a lock, as soon as no other session has it; ``wait``: so long at most, as in ``30s`` (``0s``: not at all).

        ``Refused``: another session has it (``held``, ``timeout``), or as in docs/locks.md. ``on_lost`` is called with the lock when the
        node has given it to somebody else; it runs in the network thread.
        """
        self._wait_connected()
        return self._take(name, wait, scope, on_lost).result()

    def hold(
        self, name: str, *, wait: str | None = None, scope: Scope = "session", on_lost: Callable[[Lock], None] | None = None
    ) -> _Hold:
        """Has a lock in a block, ``with`` or ``async with``: as ``take`` at its beginning, and ``release`` at its end."""
        return _Hold(self, lambda: self._take(name, wait, scope, on_lost))

    def _wait_connected(self) -> None:
        self._connected.wait(self.timeout)

    def _take(self, name: str, wait: str | None, scope: Scope, on_lost: Callable[[Lock], None] | None) -> Future[Lock]:
        body = {"lock": name, "scope": scope} | ({} if wait is None else {"wait": wait})
        taken: Future[Lock] = Future()
        with self._guard:
            if name in self._taking or name in self._held:
                raise Refused(f"this client has or takes the lock {name} already", reason="held")
            if not self._client.is_connected():
                raise Unreachable("the client is not connected")
            self._taking[name] = (Lock(self, name, scope, on_lost), taken)
            self._owed.discard(name)
        self._ask("acquire", body, lambda error: self._end_take(name, error))
        taken.add_done_callback(lambda done: self._give_up(name) if done.cancelled() else None)
        return taken

    def _release(self, lock: Lock) -> Future[None] | None:
        with self._guard:
            if self._held.get(lock.name) is not lock:
                return None
            del self._held[lock.name]
            lock.is_held = False
            if not self._client.is_connected():
                self._owed.add(lock.name)
                return None
            released = self._releasing[lock.name] = Future()
        self._ask("release", {"lock": lock.name, "number": lock.number}, lambda error: self._end_release(lock.name, error))
        return released

    def _ask(self, verb: str, body: dict[str, Any], fail: Callable[[TielineError], None]) -> None:
        properties = _properties(ResponseTopic=self._reply, CorrelationData=f"{verb} {body['lock']}".encode())

        def check(sent: Future[None]) -> None:
            error = sent.exception()
            if isinstance(error, TielineError) and not isinstance(error, Unknown):
                fail(error)

        self._send(f"$locks/{verb}", json.dumps(body), properties, False).add_done_callback(check)

    def _send(self, topic: str, payload: str | bytes, properties: Any, retain: bool) -> Future[None]:
        """Publishes; ends with the PUBACK."""
        done: Future[None] = Future()
        with self._guard:
            self._sending += 1
        try:
            sent = self._client.publish(topic, payload, 1, retain, properties)
        finally:
            with self._guard:
                self._sending -= 1
        with self._guard:
            early = self._early.pop(sent.mid, None)
            if early is None:
                self._acks[sent.mid] = done
            if not self._sending:
                self._early.clear()
        if early is not None:
            _settle(done, early)
        return done

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        answer = (reason, getattr(properties, "ReasonString", ""))
        with self._guard:
            done = self._acks.pop(mid, None)
            if done is None and self._sending:
                # The answer has overtaken the call that asked.
                self._early[mid] = answer
        if done is not None:
            _settle(done, answer)
        self._call("on_publish", client, userdata, mid, reason, properties)

    def _on_answer(self, client: Any, userdata: Any, message: Any) -> None:
        try:
            answer = json.loads(message.payload)
            status = answer["status"]
            # A refusal does not name the lock.
            verb, _, name = bytes(message.properties.CorrelationData).decode().partition(" ")
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if verb == "release":
            self._end_release(name, None)
        elif status == "acquired":
            self._acquired(name, answer["number"])
        elif status == "lost" or answer.get("reason") != "replaced":
            self._refused(name, answer)

    def _acquired(self, name: str, number: int) -> None:
        with self._guard:
            taking, held = self._taking.pop(name, None), self._held.get(name)
            if taking and not taking[1].set_running_or_notify_cancel():
                taking = None
            if taking:
                lock, taken = taking
                lock.number, lock.is_held = number, True
                self._held[name] = lock
            elif held and held.number == number:
                held.is_held = True
                return
            else:
                self._held.pop(name, None)
        if taking:
            taken.set_result(lock)
            return
        # Nobody here waits for it any more, or another session may have had it meanwhile.
        self._ask("release", {"lock": name, "number": number}, lambda error: None)
        if held:
            held._lose("another session may have had it")

    def _refused(self, name: str, answer: dict[str, Any]) -> None:
        why, reason = answer.get("detail", ""), answer.get("reason", "")
        with self._guard:
            held = self._held.pop(name, None)
        if held:
            held._lose(why or reason)
        else:
            self._end_take(name, Refused(why, reason=reason))

    def _end_take(self, name: str, error: TielineError) -> None:
        with self._guard:
            taking = self._taking.pop(name, None)
        if taking and taking[1].set_running_or_notify_cancel():
            taking[1].set_exception(error)

    def _give_up(self, name: str) -> None:
        """The caller does not wait any more."""
        with self._guard:
            self._taking.pop(name, None)
        if self._client.is_connected():
            self._ask("release", {"lock": name}, lambda error: None)

    def _end_release(self, name: str, error: TielineError | None) -> None:
        with self._guard:
            released = self._releasing.pop(name, None)
        if released and error:
            released.set_exception(error)
        elif released:
            released.set_result(None)

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        client.subscribe(self._reply, qos=1)
        with self._guard:
            held, owed = list(self._held.values()), list(self._owed)
            self._owed.clear()
        for name in owed:
            self._ask("release", {"lock": name}, lambda error: None)
        for lock in held:
            self._check(lock)
        self._connected.set()
        self._call("on_connect", client, userdata, flags, reason, properties)

    def _check(self, lock: Lock) -> None:
        """Asks whether the node has given a lock to somebody else: if not, it answers with the same number."""
        body = {"lock": lock.name, "scope": lock.scope, "wait": "0s"}
        self._ask("acquire", body, lambda error: self._refused(lock.name, {"detail": f"{error}"}))

    def _on_disconnect(self, *args: Any) -> None:
        self._connected.clear()
        with self._guard:
            taking, self._taking = self._taking, {}
            releasing, self._releasing = self._releasing, {}
            acks, self._acks = self._acks, {}
            self._owed.update(taking, releasing)
            for lock in self._held.values():
                lock.is_held = False
        for _, taken in taking.values():
            if taken.set_running_or_notify_cancel():
                taken.set_exception(Unreachable("the connection was lost"))
        for released in releasing.values():
            released.set_result(None)
        for done in acks.values():
            done.set_exception(Unknown("the connection was lost, and the message may have arrived"))
        self._call("on_disconnect", *args)

    def _call(self, name: str, *args: Any) -> None:
        if self._before[name]:
            self._before[name](*args)


def _properties(**given: Any) -> Any:
    """Properties of a PUBLISH."""
    untyped: Any = Properties
    properties = untyped(PacketTypes.PUBLISH)
    for name, value in given.items():
        setattr(properties, name, value)
    return properties


def _settle(done: Future[None], answer: tuple[Any, str]) -> None:
    reason, words = answer
    if not reason.is_failure:
        done.set_result(None)
        return
    detail = words or str(reason)
    done.set_exception(Denied(detail) if reason.value == NOT_AUTHORIZED else Refused(detail))


def _wait(future: Future[None], seconds: float) -> None:
    try:
        future.result(seconds)
    except Late:
        raise Unknown("the node did not answer, and the request may have been carried out") from None
