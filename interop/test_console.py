"""The console in Chromium, on the demonstration substation of a node that runs."""

import os
import subprocess
from pathlib import Path

import pytest
from node import BINARY
from processes import Lines

CONSOLE = Path(__file__).parent.parent / "console"


@pytest.mark.skipif(not (CONSOLE / "node_modules").is_dir(), reason="the console's packages are not installed")
def test_in_a_browser(tmp_path):
    words = ["run", "--demo", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--json"]
    pictures = CONSOLE.parent / ".work" / "screenshots"
    pictures.mkdir(parents=True, exist_ok=True)
    with Lines([BINARY, *words]) as node:
        address = node.first(60)["http"]
        settings = {**os.environ, "TIELINE_URL": f"http://{address}", "SCREENSHOTS": str(pictures)}
        command = ["node", "test/e2e.mjs"]
        done = subprocess.run(command, cwd=CONSOLE, env=settings, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{node.said()}"
        assert node.process.poll() is None, node.said()
