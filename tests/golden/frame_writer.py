"""Writes compressed frames of the reference C libraries that Kafka's own writers never make, but other clients do."""

import json
import pathlib
import sys

import lz4.frame
import snappy
import zstandard

TEXT = b"".join(b"jackdaw %d;" % (i * i % 1009) for i in range(150)) * 100
LINES: list[str] = []


def write(case: str, codec: str, data: bytes) -> None:
    LINES.append(json.dumps({"case": case, "codec": codec, "bytes": data.hex()}))


def main(folder: str) -> None:
    for level in (0, 12):
        for linked in (True, False):
            for checked in (True, False):
                data = lz4.frame.compress(
                    TEXT,
                    compression_level=level,
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    block_linked=linked,
                    block_checksum=checked,
                    content_checksum=checked,
                    store_size=checked,
                )
                write(f"level {level}, linked {linked}, checked and sized {checked}", "lz4", data)
    write("stored blocks", "lz4", lz4.frame.compress(bytes(range(256)), store_size=False))
    skippable = bytes.fromhex("502a4d1803000000616263")
    write(
        "two frames behind a skippable one", "lz4", skippable + lz4.frame.compress(b"jack") + lz4.frame.compress(b"daw")
    )
    write("raw block", "snappy", snappy.compress(TEXT))
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    write("no content size, checksum", "zstd", compressor.compress(TEXT))
    two = zstandard.ZstdCompressor()
    write("two frames", "zstd", two.compress(b"jack") + two.compress(b"daw"))
    write(
        "long window",
        "zstd",
        zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(window_log=27, write_content_size=0)
        ).compress(TEXT),
    )
    pathlib.Path(folder, "frames.jsonl").write_text("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
