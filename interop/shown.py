"""Compares what a command prints with what a page shows of it.

What differs from run to run is masked on both sides: times, keys, versions, durations, and numbers where a command reads live values.
Equal lines that follow each other count as one, and the width of a column does not count. `…` stands for any text.
"""

import re

ANY = "…"
TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"
ALWAYS = [
    (TIME, "TIME"),
    (r"\d{4}-\d\d-\d\dT?(?=…)", "TIME"),
    (r"(?<![\w.])\d{4}-\d\d-\d\d(?![\w-])", "DAY"),
    (r"(?<![\w.])\d+\.\d+\.\d+(?![\w.])", "VERSION"),
    (r"\b((?=\d*[a-f])[0-9a-f]{16,}\b|[0-9a-f]{4}…)", "HEX"),
    (r"\b[USO][A-Z2-7]{3}([A-Z2-7]{52}\b|…)", "NKEY"),
    (r"\btljoin_[\w-]+", "TOKEN"),
    (r"(?<=127\.0\.0\.1:)(?!8080|1883)\d+", "PORT"),
]
DURATION = r"(?<![\w.])(\d+(\.\d+)?(ns|µs|ms|s|m|h|d)(?![A-Za-z]))+"
NUMBER = r"(?<![\w.])-?\d+(\.\d+)?([eE]-?\d+)?(?![\w])(?!\.\d)"
LIVE = [(DURATION, "DURATION"), (r"(?<=\d )(k|M|G)?B\b", "BYTES"), (NUMBER, "NUMBER")]


def masked(text, live):
    """The lines of a text that are compared."""
    for pattern, name in ALWAYS + (LIVE if live else []):
        text = re.sub(pattern, name, text)
    lines = [" ".join(line.split()) for line in text.replace("...", ANY).splitlines()]
    return [line for n, line in enumerate(lines) if line and (n == 0 or line != lines[n - 1])]


def pattern(expected, live, streams):
    """What the whole output has to match; of a command that runs on: the lines in this order, with others between them."""
    parts = []
    for line in masked(expected, live):
        if line == ANY:
            parts.append(r"(?:.*\n)??" if streams else r"(?:.*\n)*?")
        else:
            text = re.escape(line).replace(re.escape(ANY), r".*")
            parts.append(text.replace(r"\ ", r"\s*") + r"\n")
    between = r"(?:.*\n)*?"
    return re.compile(between + between.join(parts) if streams else "".join(parts) + r"\Z")


def agrees(expected, actual, live, streams=False):
    """Whether the output is what the page shows."""
    return bool(pattern(expected, live, streams).match("".join(line + "\n" for line in masked(actual, live))))
