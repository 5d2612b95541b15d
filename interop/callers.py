"""The client libraries behind one face: each call by its Python name, with its answer as plain data. A test is run with both."""

import dataclasses
import json
import re
from datetime import datetime

import typescript
from processes import HERE, Lines
from tieline import client, sync
from waiting import until

LANGUAGES = ("python", "typescript")
PEER = HERE / "peers" / "caller.mjs"


class Python:
    """The Python client without asyncio."""

    def __init__(self, url, **login):
        self.node = sync.connect(url, **login)

    def __call__(self, name, *words, **options):
        if name == "check_backup":
            return plain(sync.check_backup(*words))
        found = getattr(self.node, name)(*words, **options)
        return plain(list(found) if hasattr(found, "__next__") else found)

    def close(self):
        self.node.close()


class TypeScript:
    """The TypeScript client, in a process of its own."""

    def __init__(self, url, **login):
        self.process, self.answered = Lines(["node", PEER, url, json.dumps(login)]), 0

    def __call__(self, name, *words, **options):
        # What Python does not take as a name.
        named = {camel(key.rstrip("_")): value for key, value in options.items()}
        self.process.send(json.dumps([camel(name), words, named], default=str))
        self.answered += 1
        lines = self.process.lines
        until(lambda: len(lines) >= self.answered or self.process.process.poll() is not None, self.process.said, 60)
        assert len(lines) >= self.answered, self.process.said()
        answer = json.loads(lines[self.answered - 1])
        if "result" in answer:
            return answer["result"]
        assert answer["error"] in client.__all__, answer
        error = getattr(client, answer["error"])
        raise error(answer["detail"], answer["status"], *([answer["reason"]] if error is client.Refused else []))

    def close(self):
        self.process.stop()


def caller(language, url, **login):
    """A client of that language; TypeScript is built before."""
    return {"python": Python, "typescript": TypeScript}[language](url, **login)


def camel(name):
    """A name as TypeScript has it."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def snake(name):
    """A name as Python has it."""
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def plain(found):
    """A result as JSON has it."""
    if dataclasses.is_dataclass(found):
        return {camel(field.name): plain(getattr(found, field.name)) for field in dataclasses.fields(found)}
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    return found.isoformat() if isinstance(found, datetime) else found


def python_calls():
    """Names of all calls of the Python client."""
    return {name for name in dir(client.Node) if not name.startswith("_")}


def typescript_calls():
    """Names of all calls of the TypeScript client."""
    with Lines(["node", PEER, "calls"]) as peer:
        return set(peer.first()) - {"pages", "back", "act", "done"}


def build():
    """Builds the TypeScript client."""
    typescript.build_client()
