"""TypeScript blocks of pages: types checked, and made into JavaScript beside the client of sdk/typescript."""

import json
import subprocess

from page import REPOSITORY, blocks

CLIENT = REPOSITORY / "sdk" / "typescript"
PACKAGES = CLIENT / "node_modules"


def are_installed():
    """Whether the compiler and the packages are there."""
    return PACKAGES.is_dir()


def programs(page):
    """The TypeScript blocks of a page."""
    return [block for block in blocks(page) if block.language in ("ts", "typescript")]


def place(folder, page):
    """Where the blocks of a page are."""
    return folder / f"{page.parent.name}-{page.stem}"


def build_client():
    """Builds the client, which the programs import."""
    done = subprocess.run(["npm", "run", "build"], cwd=CLIENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def compile_pages(pages, folder):
    """Compiles the blocks to `place(folder, page)/lineN.mjs`; what the compiler has against them."""
    modules = folder / "node_modules"
    modules.mkdir()
    (modules / "tieline").symlink_to(CLIENT)
    for name in ("mqtt", "@types"):
        (modules / name).symlink_to(PACKAGES / name)
    (folder / "package.json").write_text('{"type": "module"}')
    options = {"rootDir": ".", "outDir": ".", "declaration": False}
    settings = {"extends": str(CLIENT / "tsconfig.json"), "compilerOptions": options, "include": ["*/*.mts"], "exclude": ["node_modules"]}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    for page in pages:
        scripts = place(folder, page)
        scripts.mkdir()
        for block in programs(page):
            text = "\n".join(["export {};", *(["declare const token: string;"] if "token" in "".join(block.text) else []), *block.text, ""])
            (scripts / f"line{block.line}.mts").write_text(text)
    done = subprocess.run([PACKAGES / ".bin" / "tsc", "-p", folder], capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr
