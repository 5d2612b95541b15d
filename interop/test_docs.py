"""Pages of the documentation: every command is run and prints what its page shows; configurations are valid; each page is listed."""

import gzip
import json
import re
import subprocess
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import shown
from nats_peer import SERVER
from node import tieline
from page import REPOSITORY, Reader, blocks, may_be_made

PAGES = sorted((REPOSITORY / "docs").glob("*.md")) + [REPOSITORY / "README.md"]
ALL = {page: blocks(page) for page in PAGES}
RUN = [page for page, found in ALL.items() if any(block.is_run() for block in found)]
CONFIGURED = [page for page, found in ALL.items() if any(block.language == "toml" for block in found)]
TYPESCRIPT = REPOSITORY / "sdk" / "typescript"
TYPED = [REPOSITORY / "docs" / "control.md", TYPESCRIPT / "README.md"]
ITS_COMMANDS = "test_its_commands_print_what_it_shows"
# What a part of a configuration may lack: files beside it, and what its other parts say.
ABSENT = re.compile(r"no such file|nothing readable|^nothing$|^neither ", re.I)


def name(page):
    return "docs-README" if page == REPOSITORY / "docs" / "README.md" else page.stem


def read(page, folder):
    """Reads a page from its first command to its last; everything that differs."""
    wrong = []
    with Reader(name(page), folder / "reader") as reader:
        for block in ALL[page]:
            try:
                reader.block(block, page.name)
            except AssertionError as differs:
                wrong.append(f"{page.name}:{block.line}: {differs}")
    return wrong


@pytest.fixture(scope="module")
def readings(request, tmp_path_factory):
    """The chosen pages, four at a time: most of their time is waiting."""
    chosen = [item.callspec.params["page"] for item in request.session.items if item.originalname == ITS_COMMANDS]
    with ThreadPoolExecutor(4) as pool:
        yield {page: pool.submit(read, page, tmp_path_factory.mktemp("page")) for page in chosen}


@pytest.mark.skipif(not may_be_made(), reason="this user may make no namespaces")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_its_commands_print_what_it_shows(readings, page):
    if SERVER is None and any("tieline fabric start" in line for block in ALL[page] for line in block.text):
        pytest.skip("no nats-server: .ci/nats builds it")
    wrong = readings[page].result(240)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    "expected, printed, agree",
    [
        ("3 points", "3 points", True),
        ("3 points", "4 points", False),
        ("at 2026-11-20T09:36:00.123Z", "at 2027-01-01T00:00:00Z", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd\ne", False),
        ("a … c", "a b c", True),
        ("a   b", "a b", True),
        ("a\nb", "a", False),
        ("a", "a\nb", False),
    ],
)
def test_what_agrees(expected, printed, agree):
    assert shown.agrees(expected, printed, live=False) == agree


def test_what_agrees_of_live_values():
    assert shown.agrees("48.7 good 12s", "-3 good 1m4s", live=True)
    assert not shown.agrees("48.7 good", "48.7 bad", live=True)
    assert shown.agrees("b\nd", "a\nb\nc\nd\ne", live=True, streams=True)
    assert not shown.agrees("d\nb", "a\nb\nc\nd", live=True, streams=True)


def test_few_commands_are_not_run():
    commands = sum(len(block.commands()) for found in ALL.values() for block in found)
    skipped = [(page, block, reason) for page, found in ALL.items() for block in found for reason in block.said("skip")]
    count = sum(len(block.commands()) for _, block, _ in skipped)
    for page, block, reason in skipped:
        print(f"{page.name}:{block.line}: {reason}")
    print(f"measured: {commands - count} commands of {len(RUN)} pages are run, {count} are not")
    named = {test for _, _, reason in skipped for test in re.findall(r"test_\w+\.py", reason)}
    assert all(reason for _, _, reason in skipped)
    assert all((REPOSITORY / "interop" / test).exists() for test in named), named
    assert count <= commands / 6, "skip fewer commands"


@pytest.mark.parametrize("page", CONFIGURED, ids=name)
def test_its_configurations_are_valid(tmp_path, page):
    """A block is a configuration of a node, or a part of one, or says of which other file it is."""
    for block in ALL[page]:
        if block.language != "toml" or block.said("of"):
            continue
        file = tmp_path / f"line{block.line}.toml"
        file.write_text("\n".join(block.text) + "\n")
        checked = json.loads(tieline("config", "check", file, "--json", check=False, cwd=tmp_path).stdout)
        wrong = [error for error in checked.get("errors", []) if not ABSENT.search(error["found"])]
        assert not wrong, f"{page.name}:{block.line}: {wrong}"


@pytest.mark.skipif(not (TYPESCRIPT / "node_modules").is_dir(), reason="the TypeScript packages are not installed")
@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.parent.name)
def test_its_typescript_has_no_error_of_types(tmp_path, page):
    packages = TYPESCRIPT / "node_modules"
    options = {
        "noEmit": True,
        "rootDir": "/",
        "typeRoots": [str(packages / "@types")],
        "paths": {"tieline/*": [f"{TYPESCRIPT}/src/*.ts"], "mqtt": [str(packages / "mqtt/build/index.d.ts")]},
    }
    settings = {"extends": str(TYPESCRIPT / "tsconfig.json"), "compilerOptions": options, "include": ["*.mts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for block in blocks(page):
        if block.language in ("ts", "typescript"):
            text = "\n".join(["export {};", "declare const token: string;", *block.text, ""])
            (tmp_path / f"line{block.line}.mts").write_text(text)
    done = subprocess.run([packages / ".bin" / "tsc", "-p", tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_is_listed():
    listed = set(re.findall(r"\]\(([a-z0-9-]+\.md)", (REPOSITORY / "docs" / "README.md").read_text()))
    pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert pages <= listed, pages - listed


def test_every_page_is_served(start_node):
    """Pages of the node are those of the repository, and every link on them leads somewhere."""
    node = start_node()

    def get(path, **headers):
        with urllib.request.urlopen(urllib.request.Request(f"http://{node.http}{path}", headers=headers), timeout=20) as answer:
            return answer, answer.read()

    answer, first = get("/docs")
    assert answer.url.endswith("/docs/") and "default-src 'self'" in answer.headers["content-security-policy"], dict(answer.headers)
    pages = {"": first.decode()}
    for page in (REPOSITORY / "docs").glob("*.md"):
        name = "index.html" if page.stem == "README" else f"{page.stem}.html"
        answer, packed = get(f"/docs/{name}", **{"Accept-Encoding": "gzip"})
        assert (answer.headers["content-type"], answer.headers["content-encoding"]) == ("text/html; charset=utf-8", "gzip"), name
        pages[name] = gzip.decompress(packed).decode()
    assert pages[""] == pages["index.html"] and len(pages) > 60
    ids = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in pages.items()}
    links = [(name, link) for name, text in pages.items() for link in re.findall(r'href="([^"]+)"', text)]
    own = [(name, *link.partition("#")[::2]) for name, link in links if not re.match(r"https?:|/$|\./$|docs\.css$", link)]
    lost = [found for found in own if (found[1] or found[0]) not in ids or found[2] not in ids[found[1] or found[0]] | {""}]
    assert len(own) > 1_000 and not lost, lost
    headings = json.loads(get("/docs/search.json")[1])
    assert all(id in ids[file] for file, _, found in headings for id, _ in found)
    for name in ("docs.css", "docs.js"):
        assert get(f"/docs/{name}")[0].status == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("/docs/nothing.html")
