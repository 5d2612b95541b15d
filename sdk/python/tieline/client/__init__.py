"""A node for programs with asyncio; ``tieline.sync`` has the same without.

async with connect("http://127.0.0.1:8080") as node:
    async for value in node.subscribe("site/+/power"):
        print(value.topic, value.value, value.quality)
"""

from .access import Login, Role, User, Why, WhyRule
from .alarms import AlarmMeasure, AlarmReport, AlarmRule
from .backup import Backup, check_backup
from .errors import Denied, Refused, TielineError, Unknown, Unreachable
from .field import Lock, OverrideShown, Reservation, Tag
from .live import Subscription
from .node import Node, connect, from_env
from .operation import (
    BoardListed,
    BoardShown,
    Busy,
    Clock,
    Cluster,
    DerivedShown,
    DiagramShown,
    FabricSite,
    NotifyShown,
    NotifyTested,
    OnCallShown,
    ReloadDone,
    SiteShown,
    SiteToken,
    ViewsReloaded,
)
from .records import HistoryDeleted, HistoryEdit, HistoryImported, HistoryQuery
from .values import Done, Event, Sample, StateDuration, Value

__all__ = [
    "AlarmMeasure",
    "AlarmReport",
    "AlarmRule",
    "Backup",
    "BoardListed",
    "BoardShown",
    "Busy",
    "Clock",
    "Cluster",
    "Denied",
    "DerivedShown",
    "DiagramShown",
    "Done",
    "Event",
    "FabricSite",
    "HistoryDeleted",
    "HistoryEdit",
    "HistoryImported",
    "HistoryQuery",
    "Lock",
    "Login",
    "Node",
    "NotifyShown",
    "NotifyTested",
    "OnCallShown",
    "OverrideShown",
    "Refused",
    "ReloadDone",
    "Reservation",
    "Role",
    "Sample",
    "SiteShown",
    "SiteToken",
    "StateDuration",
    "Subscription",
    "Tag",
    "TielineError",
    "Unknown",
    "Unreachable",
    "User",
    "Value",
    "ViewsReloaded",
    "Why",
    "WhyRule",
    "check_backup",
    "connect",
    "from_env",
]
