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
import typescript
from nats_peer import SERVER
from node import tieline
from page import REPOSITORY, Block, Reader, blocks, may_be_made

PAGES = sorted((REPOSITORY / "docs").glob("*.md")) + [REPOSITORY / "README.md"]
ALL = {page: blocks(page) for page in PAGES}
RUN = [page for page, found in ALL.items() if any(block.is_run() for block in found)]
CONFIGURED = [page for page, found in ALL.items() if any(block.language == "toml" for block in found)]
TYPED = [page for page in [*PAGES, typescript.CLIENT / "README.md"] if typescript.programs(page)]
ITS_COMMANDS = "test_its_commands_print_what_it_shows"
# What a part of a configuration may lack: files beside it, and what its other parts say.
ABSENT = re.compile(r"no such file|nothing readable|^nothing$|^neither ", re.I)


def name(page):
    return "docs-README" if page == REPOSITORY / "docs" / "README.md" else page.stem


def read(page, folder, scripts):
    """Reads a page from its first command to its last; everything that differs."""
    wrong = []
    with Reader(name(page), folder / "reader", scripts) as reader:
        for block in ALL[page]:
            try:
                reader.block(block, page.name)
            except AssertionError as differs:
                wrong.append(f"{page.name}:{block.line}: {differs}")
    return wrong


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder of the TypeScript blocks of all pages, and what the compiler has against them."""
    folder = tmp_path_factory.mktemp("typescript")
    typescript.build_client()
    return folder, typescript.compile_pages(TYPED, folder)


@pytest.fixture(scope="module")
def readings(request, tmp_path_factory):
    """The chosen pages, four at a time: most of their time is waiting."""
    chosen = [item.callspec.params["page"] for item in request.session.items if item.originalname == ITS_COMMANDS]
    scripts = None
    if typescript.are_installed() and any(page in TYPED for page in chosen):
        scripts = request.getfixturevalue("compiled")[0]
    with ThreadPoolExecutor(4) as pool:
        yield {page: pool.submit(read, page, tmp_path_factory.mktemp("page"), scripts and typescript.place(scripts, page)) for page in chosen}


@pytest.mark.skipif(not may_be_made(), reason="this user may make no namespaces")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_its_commands_print_what_it_shows(readings, page):
    if SERVER is None and any("tieline fabric start" in line for block in ALL[page] for line in block.text):
        pytest.skip("no nats-server: .ci/nats builds it")
    if page in TYPED and not typescript.are_installed():
        pytest.skip("the TypeScript packages are not installed")
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


@pytest.mark.parametrize(
    "line, says",
    [
        ('print(value)  # 48.7', "48.7"),
        ('    print(f"#{one}", 2)  # a # b', "a # b"),
        ("console.log(value); // true good", "true good"),
        ('console.log("http://a"); // ok', "ok"),
        ('print("# nothing")', ""),
        ("value = 1  # not printed", ""),
    ],
)
def test_what_a_line_says_that_it_prints(line, says):
    assert Block(1, "python", [line]).prints() == says


def test_each_example_is_in_three_languages():
    examples = 0
    for page in (REPOSITORY / "docs").glob("examples*.md"):
        for section in page.read_text().split("\n## ")[1:]:
            languages = re.findall(r"^```(\w*)$", section, re.M)[::2]
            assert languages[:3] == ["", "python", "ts"], f"{page.name}: {section.splitlines()[0]}: {languages}"
            examples += 1
    assert examples >= 30


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


@pytest.mark.skipif(not typescript.are_installed(), reason="the TypeScript packages are not installed")
def test_their_typescript_has_no_error_of_types(compiled):
    assert not compiled[1]


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
    groups = re.findall(r"^## (.+)", (REPOSITORY / "docs" / "README.md").read_text(), re.M)
    for name, text in pages.items():
        menu, beside = re.search(r'<nav aria-label="Groups">(.+?)</nav>', text, re.S)[1], re.search(r'<nav id="group".+?</nav>', text, re.S)
        assert re.findall(r">([^<]+)</a>", menu) == groups, name
        assert name in ("", "index.html") or f'href="{name}" aria-current="page"' in beside[0], name
    ids = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in pages.items()}
    links = [(name, link) for name, text in pages.items() for link in re.findall(r'href="([^"]+)"', text)]
    own = [(name, *link.partition("#")[::2]) for name, link in links if not re.match(r"https?:|/$|\./$|docs\.css$|icon\.svg$", link)]
    lost = [found for found in own if (found[1] or found[0]) not in ids or found[2] not in ids[found[1] or found[0]] | {""}]
    assert len(own) > 1_000 and not lost, lost
    headings = json.loads(get("/docs/search.json")[1])
    assert all(id in ids[file] for file, _, found in headings for id, _ in found)
    images = {name for text in pages.values() for name in re.findall(r'<img src="([^"]+)"', text)}
    assert {name for name in images if name.endswith(".png")} and {name for name in images if name.endswith(".svg")}
    for name in ("docs.css", "docs.js", "icon.svg", *images):
        answer, content = get(f"/docs/{name}")
        assert answer.status == 200 and content, name
        assert answer.headers["content-type"] == {"png": "image/png", "svg": "image/svg+xml"}.get(name[-3:], answer.headers["content-type"]), name
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get("/docs/nothing.html")
