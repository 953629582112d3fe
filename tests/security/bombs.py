"""Files that are small to send and made to cost: PDFs and recordings. Each function gives the bytes of one."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO

import av
from tests.systems.conversion import pdfs

_HEAD = b"%PDF-1.7\n"
_FREE = 5
"""The first object behind catalog, page tree, font and information, by which `pdfs.document` numbers its pages."""


def xref_loop() -> bytes:
    whole = pdfs.good(1)
    at = int(whole.rpartition(b"startxref\n")[2].split()[0])
    return whole.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev %d" % at)


def xref_chain(length: int = 50_000) -> bytes:
    """Cross-reference tables, each of which names the one before."""
    out, before = bytearray(pdfs.good(1)), 0
    for _ in range(length):
        at = len(out)
        out += b"xref\n0 1\n0000000000 65535 f \ntrailer\n<</Size 9/Root 1 0 R/Prev %d>>\n" % (before or 9)
        before = at
    return bytes(out) + b"startxref\n%d\n%%%%EOF\n" % before


def xref_stream_size() -> bytes:
    table = zlib.compress(bytes(1_000))
    entries = b"/Type/XRef/Size 2147483647/Index[0 2147483647]/W[8 8 8]/Root 1 0 R/Filter/FlateDecode"
    body = b"7 0 obj\n" + pdfs._stream(table, entries) + b"\nendobj\n"
    return _HEAD + body + b"startxref\n%d\n%%%%EOF\n" % len(_HEAD)


def page_tree_loop() -> bytes:
    return pdfs.assemble([*pdfs._frame(b"/Kids[2 0 R 5 0 R]/Count 2"), b"<</Type/Pages/Kids[2 0 R 5 0 R]/Count 9>>"])


def wide_page_tree(kids: int = 300_000) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]>>"
    return pdfs.assemble([*pdfs._frame(b"/Kids[%s]/Count %d" % (b"5 0 R " * kids, kids)), page])


def form_in_itself() -> bytes:
    resources = b"/XObject<</X 7 0 R>>"
    entries = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<<%s/Font<</F1 3 0 R>>>>" % resources
    inner = pdfs._stream(b"/X Do /X Do BT /F1 9 Tf (a) Tj ET", entries)
    return pdfs.document([b"/X Do"], extra=[inner], resources=resources)


def font_in_itself() -> bytes:
    """A Type 3 font whose only letter is written in that font."""
    letter = pdfs._stream(b"1000 0 d0 BT /T 9 Tf (aaaaaaaaaa) Tj ET")
    font = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/CharProcs<</a 7 0 R>>"
    font += b"/Encoding<</Differences[97/a]>>/FirstChar 97/LastChar 97/Widths[9]/Resources<</Font<</T 8 0 R>>>>>>"
    return pdfs.document([b"BT /T 9 Tf (aaaa) Tj ET"], extra=[letter, font], resources=b"/Font<</T 8 0 R>>")


def _with_font(stream: bytes, key: bytes) -> bytes:
    cid = b"<</Type/Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<<>>/FontDescriptor 9 0 R%s>>"
    cid %= b"/CIDToGIDMap 10 0 R" if key == b"/CIDToGIDMap" else b""
    unicode = b"/ToUnicode 10 0 R" if key == b"/ToUnicode" else b""
    font = b"<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[8 0 R]%s>>" % unicode
    descriptor = b"<</Type/FontDescriptor/FontName/A/Flags 4%s>>" % (
        b"/FontFile2 10 0 R" if key == b"/FontFile2" else b""
    )
    page = b"BT /T 9 Tf <" + b"0041" * 500 + b"> Tj ET"
    return pdfs.document([page], extra=[font, cid, descriptor, stream], resources=b"/Font<</T 7 0 R>>")


def _deflated(piece: bytes, count: int, entries: bytes = b"") -> bytes:
    """`piece` as often as asked for: deflated once, and repeated as it stands."""
    squeeze = zlib.compressobj(9)
    head = squeeze.compress(piece) + squeeze.flush(zlib.Z_FULL_FLUSH)
    block = squeeze.compress(piece) + squeeze.flush(zlib.Z_FULL_FLUSH)
    data = head + block * (count - 1) + squeeze.flush()
    return pdfs._stream(data, b"/Filter/FlateDecode" + entries)


def character_map() -> bytes:
    """A map to Unicode of ten million lines."""
    lines = b"100 beginbfrange\n" + b"<0000> <ffff> <0000>\n" * 100 + b"endbfrange\n"
    return _with_font(_deflated(lines, 20_000), b"/ToUnicode")


def glyph_map() -> bytes:
    return _with_font(_deflated(bytes(1 << 20), 700), b"/CIDToGIDMap")


def font_file() -> bytes:
    return _with_font(_deflated(bytes(1 << 20), 700), b"/FontFile2")


def filters() -> bytes:
    """A stream that was deflated a hundred times."""
    data = b"BT /F1 9 Tf (a) Tj ET " * 100_000
    for _ in range(100):
        data = zlib.compress(data)
    names = b"/Filter[" + b"/FlateDecode" * 100 + b"]"
    return pdfs.document([], raw_pages=[pdfs._stream(data, names)])


def runs(count: int = 8 << 20) -> bytes:
    """128 bytes for two, a thousand million in all."""
    return pdfs.document([], raw_pages=[pdfs._stream(b"\x81 " * count, b"/Filter/RunLengthDecode")])


def contents_of_one_stream(times: int = 1_000_000) -> bytes:
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents[%s]>>"
    text = pdfs._stream(b"BT /F1 9 Tf (a word and another) Tj ET " * 20)
    return pdfs.assemble([*pdfs._frame(b"/Kids[5 0 R]/Count 1"), page % (b"6 0 R " * times), text])


def scattered_letters(count: int = 400_000) -> bytes:
    """Single letters all over one page: whoever sorts words into lines has work."""
    dice = random.Random(7)
    place = b"BT /F1 %d Tf 1 0 0 1 %d %d Tm (a) Tj ET\n"
    rows = b"".join(place % (dice.randint(1, 40), dice.randint(0, 612), dice.randint(0, 792)) for _ in range(count))
    return pdfs.document([], raw_pages=[pdfs._stream(zlib.compress(rows, 1), b"/Filter/FlateDecode")])


def rotated_words(count: int = 200_000) -> bytes:
    dice = random.Random(7)
    place = b"BT /F1 9 Tf 0.%d 0.%d -0.%d 1 %d %d Tm (word) Tj ET\n"
    rows = b"".join(place % tuple(dice.randint(1, 600) for _ in range(5)) for _ in range(count))
    return pdfs.document([], raw_pages=[pdfs._stream(zlib.compress(rows, 1), b"/Filter/FlateDecode")])


def long_title() -> bytes:
    return pdfs.document([b"BT /F1 9 Tf (a) Tj ET"], title="<&\u202e" * 500_000)


def huge_picture() -> bytes:
    """A scan of 100,000 by 100,000 dots, which is nothing but one run; no text."""
    entries = b"/Type/XObject/Subtype/Image/Width 100000/Height 100000/ColorSpace/DeviceGray/BitsPerComponent 1"
    picture = _deflated(bytes(1 << 20), 1_200, entries)
    return pdfs.document([b"612 0 0 792 0 0 cm /I Do"], extra=[picture], resources=b"/XObject<</I 7 0 R>>")


def tiling() -> bytes:
    """A pattern that is repeated every millionth of a point; no text."""
    entries = b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1 1]/XStep 0.000001/YStep 0.000001"
    pattern = pdfs._stream(b"0 0 1 1 re f", entries + b"/Resources<<>>")
    page = b"/Pattern cs /P scn 0 0 612 792 re f"
    return pdfs.document([page], extra=[pattern], resources=b"/Pattern<</P 7 0 R>>")


def page_of_a_mile() -> bytes:
    return pdfs.document([b"0 0 9 9 re f"]).replace(b"[0 0 612 792]", b"[-1e30 -1e30 1e30 1e30]")


def wave(rate: int, channels: int, bits: int, size: int, data: bytes, align: int | None = None) -> bytes:
    """A WAV whose header says what it likes."""
    align = channels * bits // 8 if align is None else align
    head = struct.pack("<HHIIHH", 1, channels & 0xFFFF, rate, rate * align & 0xFFFFFFFF, align & 0xFFFF, bits)
    return b"RIFF\xff\xff\xff\xffWAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", size) + data


def silence(container: str, codec: str, rate: int, seconds: int) -> bytes:
    """Hours of nothing in few bytes, from the codec's own encoder."""
    out = BytesIO()
    with av.open(out, "w", format=container) as target:
        stream = target.add_stream(codec, rate=rate)
        size = getattr(stream.codec_context, "frame_size", 0) or 65_535
        layout = stream.codec_context.layout.name
        frame = av.AudioFrame(stream.codec_context.format.name, layout, size)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, packets = rate, []
        for number in range(seconds * rate // size):
            frame.pts = number * size
            packets += stream.encode(frame)
        target.mux(packets + stream.encode(None))
    return out.getvalue()


def many_streams(count: int = 20_000) -> bytes:
    """An Ogg file of which every page begins a stream of its own."""
    pages = []
    for serial in range(count):
        page = b"OggS\0\x02" + bytes(8) + struct.pack("<II", serial, 0) + bytes(4) + b"\x01\x13"
        pages.append(page + b"OpusHead\x01\x01\0\0\x80\xbb\0\0\0\0\0")
    return b"".join(pages)


def big_tag() -> bytes:
    size = 24 << 20
    tag = bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))
    return b"ID3\x04\0\0" + tag + (b"TXXX\0\0\0\x08\0\0" + b"\0a=bcdef") * (size // 18)


def sample_table() -> bytes:
    """An MP4 that tells of four thousand million samples."""

    def box(name: bytes, *parts: bytes) -> bytes:
        body = b"".join(parts)
        return struct.pack(">I", len(body) + 8) + name + body

    entry = bytes(6) + b"\0\x01" + bytes(8) + struct.pack(">HHHHI", 2, 16, 0, 0, 48_000 << 16)
    tables = (
        box(b"stsd", struct.pack(">II", 0, 1), box(b"sowt", entry)),
        box(b"stts", struct.pack(">IIII", 0, 1, 0xFFFFFFFF, 1)),
        box(b"stsc", struct.pack(">IIIII", 0, 1, 1, 0xFFFFFFFF, 1)),
        box(b"stsz", struct.pack(">III", 0, 4, 0xFFFFFFFF)),
        box(b"stco", struct.pack(">III", 0, 1, 40)),
    )
    header = box(b"hdlr", bytes(8) + b"soun" + bytes(13))
    media = box(b"mdia", box(b"mdhd", struct.pack(">IIIII", 0, 0, 0, 1, 1), bytes(4)), header)
    track = box(b"trak", box(b"tkhd", bytes(84)), media[:0], box(b"mdia", header, box(b"minf", box(b"stbl", *tables))))
    return (
        box(b"ftyp", b"isom\0\0\0\0isom") + box(b"moov", box(b"mvhd", bytes(100)), track) + box(b"mdat", bytes(1_000))
    )


def boxes(depth: int = 100_000) -> bytes:
    """MP4 boxes in boxes."""
    size = depth * 8
    nest = b"".join(struct.pack(">I", size - 8 * level) + b"moov" for level in range(depth))
    return struct.pack(">I", 16) + b"ftypisom\0\0\0\0" + nest


def playlist() -> bytes:
    return b"#EXTM3U\n" + b"#EXTINF:1,\nfile:///etc/passwd\n" * 100_000


Maker = Callable[[], bytes]
PDFS: Mapping[str, Maker] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(pdfs.flate_bomb, pdfs.xobject_bomb, pdfs.deep_nesting, pdfs.deep_page_tree, pdfs.many_pages),
        *(xref_loop, xref_chain, xref_stream_size, page_tree_loop, wide_page_tree, form_in_itself, font_in_itself),
        *(character_map, glyph_map, font_file, filters, runs, contents_of_one_stream, scattered_letters, rotated_words),
        *(long_title, huge_picture, tiling, page_of_a_mile),
    )
}
AUDIO: Mapping[str, Maker] = {
    "flac, 10 h": lambda: silence("flac", "flac", 8_000, 36_000),
    "mp3, 1 h": lambda: silence("mp3", "libmp3lame", 8_000, 60) * 60,
    "opus, 30 min": lambda: silence("ogg", "libopus", 8_000, 1_800),
    "webm, 20 min": lambda: silence("webm", "libopus", 8_000, 1_200),
    "wav of 1 Hz": lambda: wave(1, 1, 8, 24 << 20, bytes(24 << 20)),
    "wav of 4 GHz": lambda: wave(0xFFFFFFFF, 1, 16, 0xFFFFFFFF, bytes(24 << 20)),
    "wav of 65,535 channels": lambda: wave(8_000, 65_535, 8, 24 << 20, bytes(24 << 20)),
    "wav of no channel": lambda: wave(8_000, 0, 16, 4_000, bytes(4_000)),
    "wav of no rate": lambda: wave(0, 1, 16, 4_000, bytes(4_000)),
    "wav of 65,535 bits": lambda: wave(8_000, 1, 65_535, 1 << 20, bytes(1 << 20)),
    "wav of no alignment": lambda: wave(8_000, 1, 8, 0xFFFFFFFF, bytes(24 << 20), align=0),
    "wav without data": lambda: wave(8_000, 1, 8, 0xFFFFFFFF, b""),
    "many streams": many_streams,
    "big tag": big_tag,
    "sample table": sample_table,
    "boxes": boxes,
    "playlist": playlist,
}
