"""Pages of the documentation, run as a reader runs them.

A page has its own folder, and its own network with the default ports free (a namespace): the text is run as it stands.
CONTRIBUTING.md says how a page is written so that it runs.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import shown
from node import BINARY
from waiting import until

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
NAMESPACES = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
NAMESPACES += ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# These go on until they are ended.
SERVES = re.compile(r"tieline (run|fabric start|seal serve|\w+ (outstation|server))\b|\bnats-server\b")
# A server with one of these is on another machine than the reader's, and goes on when the reader starts another.
ELSEWHERE = re.compile(r"--role centre|--protocol \S+|--(?:http|listen) (?!127\.0\.0\.1:)\S+")
# What they print when they serve, if the page does not show it.
READY = {"run": "console …", "fabric start": "listens …", "seal serve": "http …", None: "…"}
FOLLOWS = re.compile(r"mosquitto_sub(?!.* -[CW] )|tieline (sub(?!.* -n )|history tail|dnp3 master \S+$|trace .*--follow|top$)|curl -N")
# Machines of the pages; the one that the reader sits at is 127.0.0.1.
HOSTS = {"other": "127.0.0.1", "edge": "127.0.0.1", "plant": "127.0.0.2", "core": "127.0.0.2", "centre": "127.0.0.2", "test": "127.0.0.2"}
HOSTS |= {"west": "127.0.0.2", "east-a": "127.0.0.3"}
NODE_VERBS = """
    alarms audit backup boards busiest clock cluster command delete derived devices get health locks metrics override points pub put
    reload release renew replay reservations reserve revert sessions set sites status sub tag topics trace whoami top
""".split()
PROGRAMS = ("python", "ts", "typescript")
# These programs go on until they are ended.
ENDLESS = re.compile(r"loop_forever|subscribe\(|\.on\(|history_?stream\(", re.I)
# A line of a program that prints, and says what.
PRINTS = re.compile(r"\s*(?:print|console\.log)\(.*\);?\s+(?:#|//) (.*)")
NEEDS_NODE = re.compile(rf"mosquitto_|:(8080|1883)\b|1883|tieline ({'|'.join(NODE_VERBS)}|history (?!verify|repair)\w+|views reload|rules test)\b")
# What these print depends on their files alone, so that numbers are compared, too.
SETTLED = re.compile(r"tieline (config|views (check|test)|rules check|access (?!verify)|delta decode|dnp3 profile|context)\b")


@dataclass
class Block:
    """A fenced block with the directives above it: `<!-- docs: WORD REST -->`."""

    line: int
    language: str
    text: list
    directives: list = field(default_factory=list)

    def said(self, word):
        return [rest for name, rest in self.directives if name == word]

    def is_run(self):
        """Whether a reader runs it."""
        return self.language in PROGRAMS or any(line.startswith("$ ") for line in self.text)

    def prints(self):
        """What the lines of a program say that they print."""
        return "\n".join(found[1] for line in self.text if (found := PRINTS.fullmatch(line)))

    def commands(self):
        """Pairs of a command and what it prints; lines of a command that is not complete belong to it."""
        found = []
        for line in self.text:
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif not found:
                continue
            elif not found[-1][1] and unfinished(found[-1][0]):
                found[-1][0] += "\n" + line
            else:
                found[-1][1].append(line)
        return [(command, "\n".join(lines)) for command, lines in found]


def may_be_made():
    """Whether this user may make the namespaces of a page."""
    return subprocess.run([*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


def unfinished(command):
    """Whether a shell waits for another line of the command."""
    if command.endswith("\\"):
        return True
    said = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True).stderr
    return "unexpected EOF" in said or "unexpected end of file" in said


def blocks(path):
    """The fenced blocks of a page."""
    found, above, open_block = [], [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = re.match(r"( *)```(\S*)", line)
        directive = re.fullmatch(r" *<!-- docs: (\w+) ?(.*?) *-->", line)
        if open_block:
            if fence:
                found.append(open_block)
                open_block = None
            else:
                open_block.text.append(line.removeprefix(indent))
        elif fence:
            indent, open_block, above = fence[1], Block(number, fence[2], [], above), []
        elif directive:
            above.append((directive[1], directive[2]))
        elif line.strip():
            assert not above, f"{path.name}:{number}: a directive of documents has to stand above a block: {above}"
    return found


class Reader:
    """A shell in a fresh folder, and in namespaces where the default ports are free."""

    def __init__(self, name, folder, scripts=None):
        """`scripts` has the TypeScript blocks of the page as JavaScript, `lineN.mjs`."""
        self.name, self.folder, self.scripts, self.count = name, folder, scripts, 0
        self.work, tools = folder / "work", folder / "bin"
        self.work.mkdir(parents=True)
        tools.mkdir()
        (tools / "tieline").symlink_to(BINARY.resolve())
        (folder / ".curlrc").write_text("silent\nshow-error\n")
        path = [tools, Path(sys.executable).parent, REPOSITORY / ".work" / "bin", os.environ["PATH"]]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TIELINE_")},
            "PATH": ":".join(str(part) for part in path),
            "HOME": str(folder),
            "PYTHONPATH": str(REPOSITORY / "sdk" / "python"),
            "PYTHONUNBUFFERED": "1",
            "REPOSITORY": str(REPOSITORY),
            "TIELINE_LOG": "warn",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        for key in ("XDG_CONFIG_HOME", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            environment.pop(key, None)
        self._shell = subprocess.Popen(
            [*NAMESPACES, "bash", "--norc", "--noprofile"], cwd=self.work, env=environment, stdin=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self._running, self._node, self._typed = {}, False, ""
        self._lets, self._meanwhile, self._above = {}, None, ""
        self._tell("set -m; shopt -s expand_aliases")
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {host}.example\n" for host, address in HOSTS.items()))
        self._hidden("ip link set lo up && mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/tieline && mount --bind ~/hosts /etc/hosts")
        given = HERE / "pages" / name
        if given.is_dir():
            shutil.copytree(given, self.work, dirs_exist_ok=True)
        if (self.work / "setup.sh").exists():
            self._hidden("source ./setup.sh")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._shell.kill()
        self._shell.stdin.close()
        self._shell.wait()

    def _tell(self, line):
        self._shell.stdin.write(line + "\n")
        self._shell.stdin.flush()

    def _file(self, command):
        self.count += 1
        base = self.folder / f"{self.count}"
        base.with_suffix(".sh").write_text(command + "\n")
        base.with_suffix(".in").write_text(self._typed)
        base.with_suffix(".out").write_text("")
        return base

    def _to_its_end(self, command, seconds=60):
        """Runs a command to its end; its exit code and what it printed."""
        base = self._file(command)
        done = base.with_suffix(".rc")
        self._tell(f"source {base}.sh <{base}.in >{base}.out 2>&1; echo $? >{done}.new; mv {done}.new {done}")
        until(done.exists, lambda: f"the end of `{command}`:\n{self._printed(base)[-1000:]}", seconds)
        return int(done.read_text()), self._printed(base)

    def _printed(self, base):
        return base.with_suffix(".out").read_text().replace(f"{self.folder}/", "~/")

    def _hidden(self, command):
        code, printed = self._to_its_end(command)
        assert code == 0, f"{self.name}: `{command}` ended with {code}\n{printed[-1000:]}"

    def _until(self, command):
        """Repeats a command until it succeeds."""
        if NEEDS_NODE.search(command):
            self._with_a_node()
        until(lambda: self._to_its_end(command)[0] == 0, lambda: f"`{command}`:\n{self._printed(self.folder / str(self.count))[-1000:]}", 20)

    def run(self, command, expected):
        """Runs a command of the page, and compares."""
        for name, now in self._lets.items():
            command, expected = command.replace(name, now), expected.replace(name, now)
        serves, follows = SERVES.search(command), FOLLOWS.search(command)
        if serves and serves[1] == "run":
            self._node = True
        elif NEEDS_NODE.search(command):
            self._with_a_node()
        command = command.removesuffix(" &") if serves else command
        live = not SETTLED.search(command)
        if serves or follows:
            return self._on(command, expected, live, serves and serves[0] + (ELSEWHERE.findall(command) or [""])[0])
        code, printed = self._to_its_end(command)
        if expected:
            assert shown.agrees(expected, printed, live), different(command, expected, printed, live)
        else:
            assert code == 0, f"`{command}` ended with {code}, and the page shows no output:\n{printed}"
        return None

    def _with_a_node(self):
        """Starts the node of the page: that of its folder in pages, with the demonstration."""
        if not self._node:
            own = " --config node.toml" if (self.work / "node.toml").exists() else ""
            self.run(f"tieline run --demo{own}", "")

    def _on(self, command, expected, live, server):
        """A command that goes on: it is ended when it has printed what the page shows, a server when the page starts another."""
        self._end(server)
        base = self._file(command)
        ready = base.with_suffix(".pid")
        ended = base.with_suffix(".rc")
        self._tell(f"( source {base}.sh; echo $? >{ended} ) <{base}.in >{base}.out 2>&1 & echo $! >{ready}.new; mv {ready}.new {ready}")
        until(ready.exists, command)
        job = ready.read_text().strip()
        if server:
            self._running[server] = job
        if server and not expected:
            expected = READY.get(SERVES.search(server)[1], "listening on …")

        def as_shown():
            printed, over = self._printed(base), ended.exists()
            if shown.agrees(expected, printed, live, True) if expected else re.search(r"^(?!Error|tieline:|curl:).", printed, re.M):
                return True
            if self._meanwhile:
                self._hidden(self._meanwhile)
            assert not over, f"it has ended: {different(command, expected, printed, live)}"
            return False

        until(as_shown, lambda: different(command, expected, self._printed(base), live), 20)
        self._meanwhile = None
        if not server:
            self._hidden(f"kill -INT -- -{job} || true; wait {job} || true")

    def _end(self, server):
        job = self._running.pop(server, None)
        if job:
            self._hidden(f"kill -INT -- -{job} || true; wait {job} || true")

    def block(self, block, page):
        """What a reader does with a block."""
        self._typed = ""
        for word, rest in block.directives:
            match word:
                case "run":
                    self._obey(rest)
                case "file" | "append":
                    with (self.work / rest).open("w" if word == "file" else "a") as file:
                        file.write("\n".join(block.text) + "\n")
                case "until":
                    self._until(rest)
                case "let":
                    name, _, command = rest.partition(" ")
                    code, printed = self._to_its_end(command)
                    assert code == 0 and printed.strip(), f"{page}:{block.line}: `{command}` ended with {code}: {printed}"
                    self._lets[name] = printed.strip()
                case "meanwhile":
                    self._meanwhile = rest
                case "type":
                    self._typed = "\n".join(line.strip() for line in rest.split("|")) + "\n"
                case "skip":
                    assert rest, f"{page}:{block.line}: skip needs a reason"
                    return
                case "of":
                    assert rest, f"{page}:{block.line}: of which file?"
                case _:
                    raise AssertionError(f"{page}:{block.line}: the directive {word} is unknown")
        if block.language == "python":
            self._at(page, block, self._python, block)
        elif block.language in PROGRAMS:
            assert self.scripts, f"{page}:{block.line}: the TypeScript packages are not installed"
            self._at(page, block, self._program, block, f"node {self.scripts}/line{block.line}.mjs")
        for command, expected in block.commands():
            self._at(page, block, self.run, command, self._without_typed(expected))

    def _at(self, page, block, what, *words):
        try:
            what(*words)
        except AssertionError as differs:
            raise AssertionError(f"{page}:{block.line}: {differs}") from None

    def _python(self, block):
        """A block that begins with an import is a program; one that does not goes on with the program above."""
        if re.match("import |from ", block.text[0]):
            self._above = ""
        self._above += "\n".join(block.text) + "\n"
        script = self.work / f"line{block.line}.py"
        script.write_text(self._above)
        self._program(block, f"python {script.name}")
        if ENDLESS.search(self._above):
            self._above = ""

    def _program(self, block, command):
        """Runs a program of the page, and compares what it prints with what its lines say."""
        self._with_a_node()
        expected = block.prints()
        if ENDLESS.search("\n".join(block.text)):
            return self._on(command, expected, True, None)
        code, printed = self._to_its_end(command)
        assert code == 0, f"`{command}` ended with {code}:\n{printed}"
        assert shown.agrees(expected, printed, True, True), different(command, expected, printed, True)
        return None

    def _without_typed(self, expected):
        """What is typed, and the prompt for it, are seen in a terminal only."""
        if not self._typed:
            return expected
        unseen = [*self._typed.splitlines(), "Password:", "Once more:"]
        return "\n".join(line for line in expected.splitlines() if not line or line not in unseen)

    def _obey(self, command):
        if SERVES.search(command):
            self.run(command, "")
        else:
            if NEEDS_NODE.search(command):
                self._with_a_node()
            self._hidden(command)


def different(command, expected, printed, live):
    """What a failed test says."""
    ran, lines = shown.masked(printed, live), printed.splitlines()
    more = ["…"] if len(lines) > 24 else []
    parts = [f"`{command}`", "--- the page", *shown.masked(expected, live), "--- this run", *ran[:24], "--- unmasked", *lines[:24], *more]
    return "\n".join(parts)
