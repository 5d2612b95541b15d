"""Fixtures; what they return is described where it is defined."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import node as under_test  # noqa: E402
from processes import Peer  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--soak", type=float, default=0.0, metavar="MINUTES", help="how long test_soak.py goes on; 0: each fault once")


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
