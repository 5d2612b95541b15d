"""A client of seal servers: several of them at once, by weight and load, another one when one fails.

    async with Cluster([Server("10.0.0.1:7481"), Server("10.0.0.2:7481")], token) as cluster:
        message = await cluster.pack("spb", "22222222", content)
        unpacked = await cluster.unpack("spb", message)

``Blocking`` is the same without asyncio. The protocol is specified in docs/seal-protocol.md; ``protocol`` speaks it
without I/O.
"""

from .blocking import Blocking
from .cluster import Cluster, Server, Unavailable
from .protocol import Broken, Reason, Refused, Unpacked

__all__ = ["Blocking", "Broken", "Cluster", "Reason", "Refused", "Server", "Unavailable", "Unpacked"]
