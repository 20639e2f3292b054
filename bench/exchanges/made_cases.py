"""Healthy answers that are easier computed than typed: dumps, tables, long counts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import string
import uuid
from typing import Any

Case = tuple[str, str, str, dict[str, Any]]


def _hex_dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        digits = " ".join(f"{byte:02x}" for byte in row)
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {digits:<47}  |{text}|")
    return "\n".join(lines)


def _mandelbrot() -> str:
    rows = []
    for y in range(-8, 9):
        row = ""
        for x in range(-30, 15):
            z, c, steps = 0j, complex(x / 18, y / 8), 0
            while abs(z) < 2 and steps < 20:
                z, steps = z * z + c, steps + 1
            row += "@" if steps == 20 else " .:-=+*#%"[min(steps, 8)]
        rows.append(row.rstrip())
    return "\n".join(rows)


def cases() -> list[dict[str, Any]]:
    """Return the cases in the short form, without ids; the same ones each time."""
    draw = random.Random(7)
    noise = bytes(draw.randrange(256) for _ in range(180))
    times = "\n".join(
        " ".join(f"{a} × {b} = {a * b}" + (";" if b < 10 else "") for b in range(1, 11))
        for a in range(2, 10)
    )
    grid = "\n".join(" ".join(f"{a * b:4d}" for b in range(1, 13)) for a in range(1, 13))
    sensors = [{"id": n, "state": "idle", "temp": 20, "errors": 0} for n in range(40)]
    words = [
        "able",
        "baker",
        "charlie",
        "delta",
        "echo",
        "foxtrot",
        "golf",
        "hotel",
        "india",
        "juliet",
    ]
    found: list[Case] = [
        ("base64", "Encode 150 zero bytes as base64.", base64.b64encode(bytes(150)).decode(), {}),
        ("base64", "Give me 180 random bytes in base64, no line breaks.", base64.b64encode(noise).decode(), {}),
        ("base64", "Base64 of the sentence 'The kettle is on.'", base64.b64encode(b"The kettle is on.").decode(), {}),
        ("hex", "Hex dump of 64 bytes of 0xff.", _hex_dump(b"\xff" * 64), {}),
        ("hex", "Hex dump of 'Hello, hello, hello, hello!' twice.", "```\n" + _hex_dump(b"Hello, hello, hello, hello!" * 2) + "\n```", {}),
        ("hex", "SHA-256 of the words able to juliet, as in sha256sum.",
         "\n".join(f"{hashlib.sha256(w.encode()).hexdigest()}  {w}" for w in words), {}),
        ("uuid", "Ten random UUIDs.", "\n".join(str(uuid.UUID(int=draw.getrandbits(128), version=4)) for _ in range(10)), {}),
        ("count", "Count from 1 to 200, separated by commas.", ", ".join(map(str, range(1, 201))), {}),
        ("count", "Countdown from 60, one number per line.", "\n".join(map(str, range(60, -1, -1))), {}),
        ("count", "Write the numbers 1 to 40, and 'buzz' for multiples of four.",
         " ".join("buzz" if n % 4 == 0 else str(n) for n in range(1, 41)), {}),
        ("multiplication", "The times tables from 2 to 9, one per line.", times, {}),
        ("multiplication", "A multiplication square up to 12.", f"```\n{grid}\n```", {}),
        ("numbers", "Periodic decimals of 1/7, 1/11 and 1/13, sixty digits each.",
         "1/7 = 0." + "142857" * 10 + "\n1/11 = 0." + "09" * 30 + "\n1/13 = 0." + "076923" * 10, {}),
        ("numbers", "Pascal's triangle with eleven rows.", _pascal(11), {}),
        ("numbers", "A 16 by 16 zero matrix.", "\n".join(" ".join("0" * 16) for _ in range(16)), {}),
        ("numbers", "Thue-Morse sequence, 128 terms.", "".join(str(bin(n).count("1") % 2) for n in range(128)), {}),
        ("json", "State of the 40 sensors as minified JSON.", json.dumps(sensors, separators=(",", ":")),
         {"response_format": {"type": "json_object"}, "kind": "minified"}),
        ("json", "State of 12 sensors, pretty printed.", json.dumps(sensors[:12], indent=2), {}),
        ("csv", "CSV of a flat line: minute 0 to 45, value 20.0.",
         "minute,value\n" + "\n".join(f"{n},20.0" for n in range(46)), {}),
        ("log", "Simulate the log of a heartbeat every 5 seconds for two minutes.",
         "\n".join(f"12:{n // 12:02d}:{n % 12 * 5:02d} INFO heartbeat ok" for n in range(24)), {}),
        ("table", "Hourly temperature table for a day in a cellar.",
         "| Hour | °C |\n|---|---|\n" + "\n".join(f"| {n:02d}:00 | 12 |" for n in range(24)), {}),
        ("alphabet", "Caesar table: all 13 first shifts of the alphabet.",
         "\n".join(string.ascii_uppercase[n:] + string.ascii_uppercase[:n] for n in range(1, 14)), {}),
        ("ascii_art", "Draw the Mandelbrot set with characters.", f"```\n{_mandelbrot()}\n```", {}),
        ("url_list", "Image addresses for frames 1 to 30 of the animation.",
         "\n".join(f"https://img.example.net/anim/frame_{n:04d}.webp?w=640&h=360" for n in range(1, 31)), {}),
        ("say_n_times", "Bart has to write forty times: I will not waste chalk.",
         "\n".join(["I will not waste chalk."] * 40), {}),
        ("say_n_times", "Write the word 'beep' 100 times.", " ".join(["beep"] * 100), {}),
        ("emoji", "Fill a 6 by 6 field with the green square emoji.", "\n".join(["🟩" * 6] * 6), {}),
        ("seating", "Seating plan, rows A to H, seats 1 to 10.",
         "\n".join(" ".join(f"{row}{seat}" for seat in range(1, 11)) for row in "ABCDEFGH"), {}),
        ("calendar", "All Mondays of 2027, ISO dates.", _mondays(), {}),
        ("code", "A Python list of 120 zeros, ten per line.",
         "values = [\n" + "\n".join("    " + "0, " * 9 + "0," for _ in range(12)) + "\n]", {}),
        ("length_cut", "Count up as far as you can.", ", ".join(map(str, range(1, 70))) + ", 7",
         {"finish_reason": "length", "params": {"max_tokens": 210}}),
    ]  # fmt: skip
    rows = []
    for kind, prompt, text, extra in found:
        row = {"kind": kind, "prompt": prompt, "text": text, "finish_reason": "stop"}
        rows.append({**row, "source": "computed", **extra})
    return rows


def _pascal(rows: int) -> str:
    row, lines = [1], []
    for _ in range(rows):
        lines.append(" ".join(map(str, row)))
        row = [1, *(a + b for a, b in itertools.pairwise(row)), 1]
    return "\n".join(lines)


def _mondays() -> str:
    from datetime import date, timedelta

    return "\n".join(str(date(2027, 1, 4) + timedelta(weeks=n)) for n in range(52))
