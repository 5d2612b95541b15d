"""Takes connections, and answers nothing."""

import signal
import socket

listener = socket.create_server(("10.1.3.77", 502))
signal.pause()
