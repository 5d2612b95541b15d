"""What tshark says of a capture."""

import subprocess


def tshark(path, *words):
    command = ["tshark", "-r", str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return done.stdout


def frames(path, protocol, *ports):
    """How many packets hold that protocol."""
    return len(fields(path, protocol, "frame.number", *ports))


def fields(path, protocol, field, *ports):
    """Every value of one field, over all packets of that protocol; one packet may hold several."""
    decode = [word for port in ports for word in ("-d", f"tcp.port=={port},{protocol}")]
    return tshark(path, *decode, "-Y", protocol, "-T", "fields", "-e", field).replace(",", "\n").split()


def complaints(path, protocol, *ports, unless=None):
    """Packets that tshark finds malformed, or warns about above TCP; that a device refuses a request is no fault. It may
    warn of packets that match `unless`: of what it does not know."""
    decode = [word for port in ports for word in ("-d", f"tcp.port=={port},{protocol}")]
    wrong = "_ws.malformed || _ws.expert.severity >= 8388608"
    doubtful = '_ws.expert.severity >= 6291456 && !(_ws.expert.message == "IIN Abnormality") && !tcp.analysis.flags'
    doubtful += f" && !({unless})" if unless else ""
    return tshark(path, *decode, "-Y", f"{protocol} && ({wrong} || ({doubtful}))", "-V")
