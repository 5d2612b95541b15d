"""The codecs for bytes."""

from __future__ import annotations

from collections.abc import Callable

from .cursor import Broken, Cursor

#: Makes a value of a base, a delta and the most bytes that it may have; raises ``Broken``.
Apply = Callable[[bytes, bytes, int], bytes]


class Codecs:
    """What this side takes, by number and name."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, Apply]] = {3: ("hunk", hunk)}
        zstd = _zstd()
        if zstd:
            self._known[4] = ("zstd", zstd)

    def register(self, number: int, name: str, apply: Apply) -> None:
        """Adds a codec of one's own, numbered 8 to 15."""
        if not 8 <= number <= 15 or number in self._known or name in self.names:
            raise ValueError("a codec's number must be 8 to 15, and number and name its own")
        self._known[number] = (name, apply)

    def forget(self, name: str) -> None:
        """Leaves a codec out."""
        self._known = {number: known for number, known in self._known.items() if known[0] != name}

    @property
    def names(self) -> list[str]:
        """All that is taken, in order of preference."""
        return ["point", *(name for name, _ in self._known.values())]

    def apply(self, number: int, base: bytes, delta: bytes, bytes_max: int) -> bytes:
        """The value that a delta makes of a base."""
        if number not in self._known:
            raise Broken(f"codec {number} is not known here")
        return self._known[number][1](base, delta, bytes_max)


def hunk(base: bytes, delta: bytes, bytes_max: int) -> bytes:
    """Aligned hunks: copy from the base, insert, and go on."""
    hunks, at, length, parts = Cursor(delta), 0, 0, []
    while not hunks.is_empty:
        first = hunks.varint()
        copy, ins = first >> 1, hunks.varint()
        gone = hunks.varint() if first & 1 else ins
        parts += [base[at : at + copy], hunks.take(ins)]
        at += copy + gone
        length += copy + ins
        if at > len(base):
            raise Broken("a hunk beyond the end of the base")
        if length > bytes_max:
            raise Broken(f"a value of more than {bytes_max} bytes")
    parts.append(base[at:])
    if length + len(base) - at > bytes_max:
        raise Broken(f"a value of more than {bytes_max} bytes")
    return b"".join(parts)


def _zstd() -> Apply | None:
    """Zstandard by whichever module is there: Python 3.14's own, or ``zstandard``."""
    try:
        from compression import zstd as own
    except ImportError:
        own = None
    try:
        import zstandard
    except ImportError:
        zstandard = None
    if own is None and zstandard is None:
        return None

    def apply(base: bytes, delta: bytes, bytes_max: int) -> bytes:
        try:
            if own:
                size = own.get_frame_info(delta).decompressed_size
            else:
                size = zstandard.frame_content_size(delta)
            if size is None or not 0 <= size <= bytes_max or size > (len(delta) << 15) + len(base):
                raise Broken(f"a value of more than {bytes_max} bytes")
            if own:
                prefix = own.ZstdDict(base, is_raw=True).as_prefix if base else None
                value = own.decompress(delta, zstd_dict=prefix)
            else:
                raw = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
                value = zstandard.ZstdDecompressor(dict_data=raw).decompress(delta)
        except (ValueError, own.ZstdError if own else zstandard.ZstdError) as error:
            raise Broken(str(error)) from None
        if len(value) != size:
            raise Broken("a Zstandard frame that promises another size")
        return value

    return apply
