"""An authority that vouches for nodes and users, by OpenSSL's program."""

import ssl
import subprocess

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]


class Authority:
    """A folder of certificates that one authority has signed."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        self._openssl("req", "-x509", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
        self.file = folder / f"{name}.pem"

    def _openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def issue(self, name, subject=None, names=None, extensions=()):
        """`NAME.pem` and `NAME.key`."""
        alternative = [f"subjectAltName={names}"] if names else []
        # Of its own accord OpenSSL would make another authority.
        all_ = ["basicConstraints=critical,CA:FALSE", *alternative, *extensions]
        added = [word for one in all_ for word in ("-addext", one)]
        words = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", subject or f"/CN={name}", *added]
        self._openssl("req", "-x509", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", *CURVE, *words)
        return self

    def files(self, name):
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def context(self, name=None):
        """A client that trusts the authority and shows a certificate of it."""
        context = ssl.create_default_context(cafile=self.file)
        if name:
            context.load_cert_chain(*self.files(name))
        return context


def user_roles(*infos):
    """The extension IECUserRoles of IEC 62351-8: roles by number, and the area in which they hold."""

    def piece(tag, data):
        assert len(data) < 128
        return bytes([tag, len(data)]) + data

    def info(ids, area):
        roles = b"".join(piece(2, number.to_bytes(2, "big", signed=True).lstrip(b"\0") or b"\0") for number in ids)
        return piece(0x30, piece(0x30, roles) + piece(0x0C, area.encode()) + piece(2, b"\1"))

    body = piece(0x30, b"".join(info(*one) for one in infos))
    return "1.2.840.10070.8.1=DER:" + ":".join(f"{byte:02x}" for byte in body)
