"""Fixtures; what they return is described where it is defined."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "sdk" / "python"))

import node as under_test  # noqa: E402
from processes import Peer  # noqa: E402

SHUFFLE = "another order of files, and of the tests within them; without a seed, a random one"


def pytest_addoption(parser):
    parser.addoption("--soak", type=float, default=0.0, metavar="MINUTES", help="how long test_soak.py goes on; 0: each fault once")
    parser.addoption("--restarts", type=int, default=20, metavar="N", help="how often each device restarts in test_restarts.py")
    parser.addoption("--kills", type=int, default=20, metavar="N", help="how often test_kill.py kills the node")
    parser.addoption("--shuffle", type=int, default=None, nargs="?", const=-1, metavar="SEED", help=SHUFFLE)


def pytest_configure(config):
    if config.option.shuffle == -1:
        config.option.shuffle = random.randrange(1 << 32)


def pytest_report_header(config):
    seed = config.option.shuffle
    return None if seed is None else f"order: --shuffle {seed}"


def pytest_collection_modifyitems(config, items):
    seed = config.option.shuffle
    if seed is None:
        return
    chance, files = random.Random(seed), {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = sorted(files)
    chance.shuffle(order)
    for file in order:
        chance.shuffle(files[file])
    items[:] = [item for file in order for item in files[file]]


@pytest.fixture(scope="session", autouse=True)
def binary(request):
    """The binary under test; only the tests of the peers themselves do without."""
    needs = [item for item in request.session.items if item.module.__name__ not in ("test_peers", "test_recording")]
    if needs and not under_test.BINARY.exists():
        pytest.exit(f"{under_test.BINARY} is not built; `make test` builds it, TIELINE_BIN names another", 2)
    return under_test.BINARY


@pytest.fixture
def start_node(tmp_path):
    """Starts nodes with the given devices, and ends them after the test."""
    started = []

    def start(*devices, **options):
        started.append(under_test.Node(tmp_path, *devices, **options))
        return started[-1]

    yield start
    for node in started:
        node.__exit__()


@pytest.fixture(params=["opendnp3_outstation", "dnp3py_outstation"])
def outstation(request):
    """Each foreign outstation in turn."""
    with Peer(request.param) as peer:
        peer.kind = request.param
        yield peer
