"""Stands in for ``python -m quality_lib``: answers each command from a script and records the call.

``$STAND_IN/answers.json`` maps "golden check chat" (or "golden check") to a list of answers; each call
takes the next, the last one repeats. An answer: ``{"code", "json", "stderr", "hang"}``. A command that works
in an incident's folder is its service's.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

home = Path(os.environ["STAND_IN"])
arguments = sys.argv[3:]  # after: -m quality_lib
options = dict(itertools.pairwise(arguments))
words = list(itertools.takewhile(lambda a: not a.startswith(("-", "/")), arguments))
verb = " ".join(words)
place = options.get("--incident-dir") or next(
    (a for a in arguments if a.startswith("/")), "/none/x"
)
service = options.get("--service") or Path(place).parent.name
with (home / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"verb": verb, "service": service, "arguments": arguments}) + "\n")
before = sum(
    (call["verb"], call["service"]) == (verb, service)
    for call in map(json.loads, (home / "calls.jsonl").read_text().splitlines())
)
answers = json.loads((home / "answers.json").read_text())
mine = answers.get(f"{verb} {service}") or answers[verb]
answer = mine[min(before, len(mine)) - 1]

print(answer.get("stderr", "working"), file=sys.stderr, flush=True)
if answer.get("hang"):
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    (home / "pids").write_text(f"{os.getpid()} {grandchild.pid}")
    time.sleep(300)
if answer.get("json") is not None:
    print(json.dumps(answer["json"]))
sys.exit(answer.get("code", 0))
