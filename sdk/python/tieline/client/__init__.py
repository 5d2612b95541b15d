"""A node for programs with asyncio; ``tieline.sync`` has the same without.

async with connect("http://127.0.0.1:8080") as node:
    async for value in node.subscribe("site/+/power"):
        print(value.topic, value.value, value.quality)
"""

from .errors import Denied, Refused, TielineError, Unknown, Unreachable
from .live import Subscription
from .node import HistoryQuery, Node, connect, from_env
from .values import Done, Sample, Value

__all__ = [
    "Denied",
    "Done",
    "HistoryQuery",
    "Node",
    "Refused",
    "Sample",
    "Subscription",
    "TielineError",
    "Unknown",
    "Unreachable",
    "Value",
    "connect",
    "from_env",
]
