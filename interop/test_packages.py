"""Packages: what is in them, and a machine on which they are installed, upgraded, removed and purged."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from machine import Machine, refused
from node import BINARY
from processes import Lines
from waiting import until

HERE = Path(__file__).parent.parent
PACKAGING = HERE / "packaging"
UNITS = PACKAGING / "root/usr/lib/systemd/system"
CONFIG = "/etc/tieline/tieline.toml"
TOOLS = [HERE / ".work/bin/nfpm", "umoci", "dpkg-deb", "objdump", "ar", "strip", "zstd", "cargo"]
ABSENT = [str(tool) for tool in TOOLS if not shutil.which(tool)]
REFUSED = refused()

needs_tools = pytest.mark.skipif(bool(ABSENT), reason=f"no {', '.join(ABSENT)}: packages are not made")
needs_machine = pytest.mark.skipif(REFUSED is not None, reason=f"packages are not installed: {REFUSED}")


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built(binary, out, **environment):
    """All packages of a binary; compression is fast, not small."""
    run(PACKAGING / "build", binary, out, env={**os.environ, "COMPRESSION": "zstd", **environment})
    return out


@pytest.fixture(scope="module")
def stripped(tmp_path_factory):
    """The binary under test, stripped as the one that is shipped, with a file of symbols beside it."""
    file = tmp_path_factory.mktemp("stripped") / "tieline"
    run("strip", "-o", file, BINARY)
    file.with_name("tieline.debug").write_bytes(b"symbols")
    return file


@pytest.fixture(scope="module")
def packages(stripped, tmp_path_factory):
    return built(stripped, tmp_path_factory.mktemp("packages"))


def one(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


@needs_tools
def test_deb_has_each_file_with_owner_and_mode(packages):
    deb = one(packages, "*.deb")
    files = {}
    for line in run("dpkg-deb", "--contents", deb).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        files[name.removeprefix(".")] = f"{mode} {owner}"
    expected = {
        "/usr/bin/tieline": "-rwxr-xr-x root/root",
        "/etc/tieline/": "drwxr-x--- root/tieline",
        CONFIG: "-rw-r----- root/tieline",
        "/usr/lib/systemd/system/tieline.service": "-rw-r--r-- root/root",
        "/usr/lib/systemd/system/tieline-backup.timer": "-rw-r--r-- root/root",
        "/usr/lib/systemd/system/tieline.service.d/serial.conf.example": "-rw-r--r-- root/root",
        "/usr/lib/sysusers.d/tieline.conf": "-rw-r--r-- root/root",
        "/usr/lib/tmpfiles.d/tieline.conf": "-rw-r--r-- root/root",
        "/usr/share/man/man1/tieline-run.1.gz": "-rw-r--r-- root/root",
        "/usr/share/bash-completion/completions/tieline": "-rw-r--r-- root/root",
        "/usr/share/doc/tieline/LICENSE": "-rw-r--r-- root/root",
        "/usr/share/doc/tieline/sbom.cdx.json": "-rw-r--r-- root/root",
    }
    assert {name: files.get(name) for name in expected} == expected
    # A package with ./lib replaces the link of a merged /usr when it is unpacked over one.
    assert {name.split("/")[1] for name in files} == {"etc", "usr"}
    assert not [name for name in files if re.search(r"\.d/[^/]*\.conf$", name) and "systemd/system" in name], "drop-ins are off"
    assert run("dpkg-deb", "--info", deb, "conffiles").split() == [CONFIG]
    control = run("dpkg-deb", "--field", deb)
    assert re.search(r"^Depends: libc6 \(>= 2\.\d+\), libgcc-s1", control, re.M), control


@needs_tools
def test_rpm_has_the_same_files(packages):
    if not shutil.which("rpm"):
        pytest.skip("no rpm")
    rpm = one(packages, "*.rpm")
    of_rpm = set(run("rpm", "-qpl", rpm).split())
    of_deb = [line.split(None, 5)[5].removeprefix(".") for line in run("dpkg-deb", "-c", one(packages, "*.deb")).splitlines()]
    assert {name for name in of_deb if not name.endswith("/")} == of_rpm - {"/etc/tieline"}
    assert run("rpm", "-qpc", rpm).split() == [CONFIG]
    assert "glibc >= 2." in run("rpm", "-qp", "--requires", rpm)


@pytest.mark.parametrize("script", sorted(path.name for path in (PACKAGING / "scripts").iterdir()))
def test_scripts_are_for_any_shell(script):
    run("sh", "-n", PACKAGING / "scripts" / script)
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck")
    run("shellcheck", "--shell=sh", PACKAGING / "scripts" / script)


def exposure(folder, drop_ins):
    """How open a unit with drop-ins is, from 0 to 10, by systemd's own measure."""
    unit = folder / "-".join(drop_ins or ["alone"]) / "tieline.service"
    own = unit.with_name("tieline.service.d")
    own.mkdir(parents=True)
    shutil.copy(UNITS / unit.name, unit)
    for name in drop_ins:
        shutil.copy(UNITS / own.name / f"{name}.conf.example", own / f"{name}.conf")
    said = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
    return float(re.search(r"exposure level for \S+: ([\d.]+)", said)[1])


def test_unit_is_hardened(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    alone = exposure(tmp_path, [])
    assert alone <= 1.5
    for drop_ins in (["low-ports", "serial", "real-time"], ["goose"]):
        assert alone < exposure(tmp_path, drop_ins) <= 2.0, drop_ins


@needs_tools
def test_same_commit_gives_the_same_bytes(packages, stripped, tmp_path):
    copy = tmp_path / "elsewhere" / "tieline"
    copy.parent.mkdir()
    shutil.copyfile(stripped, copy)
    copy.chmod(0o700)
    shutil.copyfile(stripped.with_name("tieline.debug"), copy.with_name("tieline.debug"))
    again = tmp_path / "again"
    before = os.umask(0o077)
    try:
        built(copy, again, TZ="Asia/Tokyo", LANG="de_DE.UTF-8")
    finally:
        os.umask(before)
    digests = [{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} for folder in (packages, again)]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 6, digests[0]


@needs_tools
def test_checksums_are_signed_if_a_key_is_given(packages, tmp_path):
    sums = dict(reversed(line.split()) for line in (packages / "SHA256SUMS").read_text().splitlines())
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages.iterdir() if path.name != "SHA256SUMS"}
    if not shutil.which("minisign"):
        pytest.skip("no minisign")
    shutil.copy(packages / "SHA256SUMS", tmp_path)
    key, public = tmp_path / "release.key", tmp_path / "release.pub"
    run("minisign", "-G", "-W", "-s", key, "-p", public)
    run(PACKAGING / "sign", tmp_path, env={**os.environ, "MINISIGN_KEY": str(key)})
    run("minisign", "-V", "-p", public, "-m", tmp_path / "SHA256SUMS")
    (tmp_path / "SHA256SUMS").write_text("other")
    assert subprocess.run(["minisign", "-V", "-p", public, "-m", tmp_path / "SHA256SUMS"], capture_output=True).returncode != 0
    assert "NOT SIGNED" in run(PACKAGING / "sign", tmp_path, env={**os.environ, "MINISIGN_KEY": ""})


@needs_tools
def test_components_are_listed(packages):
    bom = json.loads(one(packages, "*.cdx.json").read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    components = {component["name"]: component for component in bom["components"]}
    assert {"tokio", "rustls", "tieline-core"} <= set(components)
    assert not {"proptest", "xtask"} & set(components), "only what is linked"
    assert re.fullmatch("[0-9a-f]{64}", components["tokio"]["hashes"][0]["content"])
    assert components["tokio"]["licenses"] == [{"expression": "MIT"}]


@needs_tools
@pytest.mark.skipif(os.geteuid() != 0, reason="the image is not run: only root changes its root folder")
def test_image_runs_alone(packages, tmp_path):
    layout, bundle = tmp_path / "layout", tmp_path / "bundle"
    layout.mkdir()
    with tarfile.open(one(packages, "*.oci.tar")) as archive:
        archive.extractall(layout, filter="data")
    (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
    tag = manifest["annotations"]["org.opencontainers.image.ref.name"]
    run("umoci", "unpack", "--image", f"{layout}:{tag}", bundle)
    process = json.loads((bundle / "config.json").read_text())["process"]
    assert process["user"]["uid"] == process["user"]["gid"] == 65532
    assert process["args"] == ["/usr/bin/tieline", "run", "--config", CONFIG, "--data", "/var/lib/tieline"]
    # Its command, with a network of its own; `tieline health` in the same is what an orchestrator asks.
    root = bundle / "rootfs"
    inside = ["chroot", "--userspec=65532:65532", root]
    with Lines(["unshare", "--net", "bash", "-c", 'ip link set lo up && exec "$@"', "image", *inside, *process["args"]]) as node:
        health = ["nsenter", f"--target={node.process.pid}", "--net", *inside, "/usr/bin/tieline", "health"]
        until(lambda: subprocess.run(health, capture_output=True).returncode == 0, node.said)
        assert node.stop() == 0, node.said()
    assert list((root / "var/lib/tieline").iterdir()), "its data is in the volume"


@pytest.fixture
def machine(packages, tmp_path):
    with Machine(tmp_path) as made:
        shutil.copy(one(packages, "*.deb"), made.path("/srv/tieline.deb"))
        yield made


def install(machine, deb="/srv/tieline.deb"):
    done = machine.run("dpkg", "--no-triggers", "--force-confold", "--install", deb)
    return done.stdout + done.stderr


def healthy(machine):
    until(lambda: machine.run("tieline", "health", check=False).returncode == 0, lambda: journal(machine), 20)


def journal(machine):
    return machine.run("journalctl", "--no-pager", "--lines=30").stdout


def first_process(machine):
    return machine.run("systemctl", "show", "--property=MainPID", "--value", "tieline.service").stdout.strip()


def add_user(machine, name="anna", role="ENGINEER"):
    machine.path(f"/srv/{name}").write_text("correct-horse-battery\n")
    machine.run("tieline", "access", "user", "add", name, "--role", role, "--config", CONFIG, "--password-file", f"/srv/{name}")
    words = ("tieline", "whoami", "--user", name, "--password-file", f"/srv/{name}")
    until(lambda: machine.run(*words, check=False).returncode == 0, lambda: journal(machine), 20)


def as_anna(machine, *words, **options):
    return machine.run("tieline", *words, "--user", "anna", "--password-file", "/srv/anna", **options)


def next_release(machine, edit):
    """A package of a later release, in whose root `edit` has changed files."""
    root = "/srv/next"
    machine.run("dpkg-deb", "--raw-extract", "/srv/tieline.deb", root)
    control = machine.path(f"{root}/DEBIAN/control")
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 9.0.0-1", control.read_text()))
    edit(machine.path(root))
    machine.run("dpkg-deb", "-Znone", "--build", root, "/srv/next.deb")
    return "/srv/next.deb"


@needs_tools
@needs_machine
def test_first_install_runs_and_lets_nobody_in(machine):
    said = install(machine)
    healthy(machine)
    assert "tieline access user add" in said
    assert machine.run("systemctl", "is-enabled", "tieline.service").stdout.strip() == "enabled"
    assert machine.run("systemctl", "is-enabled", "tieline-backup.timer", check=False).stdout.strip() == "disabled"
    assert machine.run("tieline", "topics", check=False).returncode != 0, "users of the machine must authenticate"
    listening = {line.split()[3] for line in machine.run("ss", "-Hltn").stdout.splitlines()}
    assert listening == {"127.0.0.1:8080", "127.0.0.1:1883"}, "other machines reach nothing"
    add_user(machine)
    as_anna(machine, "put", "plant/volts", "230")
    assert as_anna(machine, "get", "plant/volts").stdout.strip() == "230"
    status = machine.path(f"/proc/{first_process(machine)}/status").read_text()
    assert re.search(r"^CapBnd:\s+0+$", status, re.M) and re.search(r"^Seccomp:\s+2$", status, re.M), status
    # systemd starts it again when it is killed.
    machine.run("systemctl", "kill", "--signal=KILL", "tieline.service")
    until(lambda: machine.run("systemctl", "show", "--property=NRestarts", "--value", "tieline").stdout.strip() == "1", "a restart")
    healthy(machine)
    assert as_anna(machine, "get", "plant/volts").stdout.strip() == "230"


def shown(machine, name):
    return machine.run("systemctl", "show", f"--property={name}", "--value", "tieline.service").stdout.strip()


@needs_tools
@needs_machine
def test_systemd_knows_how_the_node_does(machine):
    install(machine)
    # It takes connections as soon as `systemctl start` returns.
    machine.run("systemctl", "restart", "tieline.service")
    assert machine.run("tieline", "health").returncode == 0
    assert (shown(machine, "Type"), shown(machine, "WatchdogUSec")) == ("notify", "30s")
    assert shown(machine, "StatusText").startswith("MQTT at 127.0.0.1:1883, HTTP at 127.0.0.1:8080")
    drop_in = machine.path("/etc/systemd/system/tieline.service.d")
    drop_in.mkdir()
    (drop_in / "soon.conf").write_text("[Service]\nWatchdogSec=2s\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "tieline.service")
    before = first_process(machine)
    # A node that hangs is started again.
    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "tieline.service")
    until(lambda: shown(machine, "NRestarts") == "1" and shown(machine, "ActiveState") == "active", lambda: journal(machine), 60)
    healthy(machine)
    assert first_process(machine) != before
    machine.run("systemctl", "stop", "tieline.service")
    assert shown(machine, "Result") == "success", journal(machine)


@needs_tools
@needs_machine
def test_backup_service_writes_an_archive(machine):
    install(machine)
    healthy(machine)
    machine.path("/etc/tieline/roles.toml").write_text('[role.backup]\nrules = ["allow admin $backup"]\n')
    config = machine.path(CONFIG)
    config.write_text(config.read_text().replace('users = "users.toml"', 'users = "users.toml"\nroles = "roles.toml"'))
    machine.run("chgrp", "tieline", "/etc/tieline/roles.toml")
    machine.run("systemctl", "restart", "tieline.service")
    healthy(machine)
    add_user(machine, "backup", "backup")
    machine.run("install", "-m", "0640", "-g", "tieline", "/srv/backup", "/etc/tieline/backup.password")
    done = machine.run("systemctl", "start", "tieline-backup.service", check=False)
    assert done.returncode == 0, journal(machine)
    (archive,) = machine.path("/var/backups/tieline").iterdir()
    machine.run("tieline", "restore", f"/var/backups/tieline/{archive.name}", "--check")


@needs_tools
@needs_machine
def test_upgrade_keeps_data_configuration_and_users(machine):
    install(machine)
    healthy(machine)
    add_user(machine)
    as_anna(machine, "put", "plant/volts", "230")
    config = machine.path(CONFIG)
    edited = config.read_text().replace("# [node]", "[node]").replace('# name = "plant"', 'name = "mine"')
    config.write_text(edited)
    old = first_process(machine)

    def edit(root):
        file = root / CONFIG[1:]
        file.write_text(file.read_text() + "\n# A line of the later release.\n")

    install(machine, next_release(machine, edit))
    healthy(machine)
    assert first_process(machine) not in (old, "0")
    assert config.read_text() == edited
    status = config.stat()
    assert (status.st_mode & 0o777, machine.run("stat", "--format=%U:%G", CONFIG).stdout.strip()) == (0o640, "root:tieline")
    assert as_anna(machine, "get", "plant/volts").stdout.strip() == "230"
    history = json.loads(as_anna(machine, "history", "query", "plant/volts", "--from", "1h", "--format", "json").stdout)
    assert history, "the history is kept"
    # What an administrator has stopped stays stopped.
    machine.run("systemctl", "stop", "tieline.service")
    install(machine)
    assert machine.run("systemctl", "is-active", "tieline.service", check=False).stdout.strip() == "inactive"


@needs_tools
@needs_machine
@pytest.mark.parametrize("error", ["unknown key", "users that only root may read"])
def test_upgrade_leaves_the_old_node_when_the_new_one_would_not_start(machine, error):
    install(machine)
    healthy(machine)
    old = first_process(machine)
    config, users = machine.path(CONFIG), "/etc/tieline/users.toml"
    good = config.read_text()
    if error == "unknown key":
        config.write_text(good + "[unknown]\nkey = 1\n")
    else:
        machine.run("chown", "root:root", users)
    said = install(machine, next_release(machine, lambda _: None))
    assert "goes on" in said and ("unknown" in said or "users.toml" in said), said
    assert first_process(machine) == old
    config.write_text(good)
    machine.run("chown", "tieline:tieline", users)
    machine.run("systemctl", "restart", "tieline.service")
    healthy(machine)
    assert first_process(machine) != old


@needs_tools
@needs_machine
@pytest.mark.parametrize("verb", ["--remove", "--purge"])
def test_removal_keeps_data_and_says_where(machine, verb):
    install(machine)
    healthy(machine)
    add_user(machine)
    as_anna(machine, "put", "plant/volts", "230")
    said = machine.run("dpkg", "--no-triggers", verb, "tieline").stdout
    assert "/var/lib/tieline is kept" in said and "users.toml is kept" in said, said
    assert machine.run("systemctl", "is-active", "tieline.service", check=False).stdout.strip() == "inactive"
    assert not machine.path("/usr/bin/tieline").exists()
    assert machine.path(CONFIG).exists() == (verb == "--remove")
    # Installed again, it has its data and its users.
    install(machine)
    healthy(machine)
    assert as_anna(machine, "get", "plant/volts").stdout.strip() == "230"


@needs_tools
@needs_machine
def test_rpm_installs_and_its_removal_keeps_data(machine, packages):
    if not shutil.which("rpm"):
        pytest.skip("no rpm")
    shutil.copy(one(packages, "*.rpm"), machine.path("/srv/tieline.rpm"))
    # This machine's packages are debs.
    machine.run("rpm", "--install", "--nodeps", "/srv/tieline.rpm")
    healthy(machine)
    assert machine.run("stat", "--format=%U:%G %a", CONFIG).stdout.strip() == "root:tieline 640"
    add_user(machine)
    as_anna(machine, "put", "plant/volts", "230")
    said = machine.run("rpm", "--erase", "tieline").stdout
    assert "/var/lib/tieline is kept" in said and "users.toml is kept" in said, said
    assert machine.run("systemctl", "is-active", "tieline.service", check=False).stdout.strip() == "inactive"
    assert not machine.path("/usr/bin/tieline").exists()
    assert machine.path("/var/lib/tieline/journal").exists()
