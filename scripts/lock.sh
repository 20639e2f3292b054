#!/usr/bin/env bash
# Compile the lock: every package that is installed, in one version. Then run `make setup test`.
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/uv_settings.sh

# Neither paths nor addresses of this machine go into the file.
.venv/bin/uv pip compile --quiet --python-version 3.11 "${sources[@]}" "${torch_backend[@]}" \
  --override requirements.override.txt --custom-compile-command "make lock" \
  --no-emit-find-links --no-emit-index-url requirements.in -o requirements.txt
head -3 requirements.txt
