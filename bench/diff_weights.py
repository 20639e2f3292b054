"""Memory and time of the weight diff on two generated folders, which are deleted afterwards."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_MIB = 512
TENSOR_BYTES = 512 << 20
CHUNK = 8 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-gib", type=float, default=8.0, help="size of each folder")
    parser.add_argument("--folder", type=Path, help="where to generate; default: the temporary one")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    wanted = int(args.size_gib * 2**30)
    parent = args.folder or Path(tempfile.gettempdir())
    free = shutil.disk_usage(parent).free
    if free < 2 * wanted + 2**30:
        sys.exit(
            f"{parent} has {free / 2**30:.1f} GiB free, two folders need {2 * wanted / 2**30:.1f}"
        )
    with tempfile.TemporaryDirectory(dir=parent) as temporary:
        a, b = Path(temporary) / "a", Path(temporary) / "b"
        changed = _generate(a, b, wanted)
        start = time.perf_counter()
        child = subprocess.run(
            [sys.executable, "-m", "quality_lib", "weights", "diff", str(a), str(b), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        # Kilobytes on Linux; the largest child, and the diff is the only large one.
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    found = json.loads(child.stdout)
    named = sorted(tensor["name"] for tensor in found["different"])
    result = {
        "size_gib_each": args.size_gib,
        "tensors": found["equal_tensors"] + found["different_tensors"],
        "found_what_was_changed": named == sorted(changed),
        "exit_code": child.returncode,
        "peak_rss_mib": round(peak),
        "limit_mib": LIMIT_MIB,
        "seconds": round(seconds, 1),
        "gib_s_read": round(2 * args.size_gib / seconds, 2),
        "load_1min": round(os.getloadavg()[0], 1),
    }
    for name, value in result.items():
        print(f"{name:<24}{value}")
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=2) + "\n")
    if peak > LIMIT_MIB or not result["found_what_was_changed"]:
        sys.exit(1)


def _generate(a: Path, b: Path, wanted: int) -> list[str]:
    """Write two folders of bf16 tensors; return the names of those that differ.

    One tensor differs in every element, one in a single bit, one in its last byte.
    """
    count = max(4, wanted // TENSOR_BYTES)
    size = wanted // count // CHUNK * CHUNK
    noise = os.urandom(CHUNK)
    header = {
        f"layer.{i}.weight": {
            "dtype": "BF16", "shape": [size // 2], "data_offsets": [i * size, (i + 1) * size],
        }
        for i in range(count)
    }  # fmt: skip
    text = json.dumps(header).encode()
    for folder in (a, b):
        folder.mkdir()
        with (folder / "model.safetensors").open("wb") as stream:
            stream.write(len(text).to_bytes(8, "little") + text)
            for _ in range(count * size // CHUNK):
                stream.write(noise)
    # A sign in the upper byte of each bf16: finite stays finite.
    turned = bytes(byte ^ 0x80 if i % 2 else byte for i, byte in enumerate(noise[: 1 << 16])) * (
        CHUNK >> 16
    )
    with (b / "model.safetensors").open("r+b") as stream:
        start = 8 + len(text)
        for offset in range(0, size, CHUNK):
            stream.seek(start + offset)
            stream.write(turned)
        for place in (start + size + size // 2, start + 3 * size - 1):
            stream.seek(place)
            byte = stream.read(1)[0]
            stream.seek(place)
            stream.write(bytes([byte ^ 1]))
    return ["layer.0.weight", "layer.1.weight", "layer.2.weight"]


if __name__ == "__main__":
    main()
