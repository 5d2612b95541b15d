"""Writes rules.txt: recurrences by the day and by the week, and the occurrences that python-dateutil finds."""

import random
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from dateutil.rrule import rrulestr

DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
SHOWN = 12


def rule(chance, start):
    """A rule whose first occurrence is at `start`."""
    parts = {"FREQ": chance.choice(["DAILY", "WEEKLY", "WEEKLY"])}
    if chance.random() < 0.6:
        parts["INTERVAL"] = chance.choice([1, 2, 2, 3, 4, 13])
    has_days = parts["FREQ"] == "WEEKLY" or parts.get("INTERVAL", 1) == 1
    if has_days and chance.random() < 0.7:
        days = {start.weekday(), *(chance.randrange(7) for _ in range(chance.randrange(5)))}
        parts["BYDAY"] = ",".join(chance.sample([DAYS[day] for day in days], len(days)))
    if chance.random() < 0.5:
        parts["WKST"] = chance.choice(DAYS)
    if (end := chance.random()) < 0.3:
        parts["COUNT"] = chance.randrange(1, 15)
    elif end < 0.6:
        parts["UNTIL"] = f"{start + timedelta(days=chance.randrange(40), seconds=chance.choice([-1, 0, 1])):%Y%m%dT%H%M%S}"
    return ";".join(f"{name}={value}" for name, value in parts.items())


def main():
    chance, lines = random.Random(5545), ["# dtstart | rule | occurrences"]
    for _ in range(400):
        start = datetime(2024, 1, 1) + timedelta(hours=chance.randrange(3 * 365 * 24))
        text = rule(chance, start)
        found = islice(rrulestr(text, dtstart=start), SHOWN)
        lines.append(f"{start:%Y%m%dT%H%M%S} | {text} | {' '.join(f'{one:%Y%m%dT%H%M%S}' for one in found)}")
    Path(__file__).with_name("rules.txt").write_text("\n".join(lines) + "\n")


main()
