#!/usr/bin/env bash
# Compile the locks of the images from the root lock: same versions, fewer packages.
# Run after every change of the root requirements.txt:  docker/lock.sh
set -euo pipefail
cd "$(dirname "$0")/.."

uv=.venv/bin/uv
[[ -x $uv ]] || uv=uv
links=()
[[ -n ${PIP_FIND_LINKS:-} ]] && links=(--find-links "$PIP_FIND_LINKS")

compile() {
  "$uv" pip compile --quiet --python-version 3.11 --override requirements.override.txt \
    --constraints requirements.txt "${links[@]}" --no-header --no-annotate "$@"
}
note="# Written by docker/lock.sh; do not edit."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile docker/airflow/requirements.in -o "$work/airflow" >/dev/null
compile docker/airflow/requirements.in docker/airflow/requirements-runner.in -o "$work/both" >/dev/null
compile --no-deps docker/vllm/requirements.in -o "$work/vllm" >/dev/null

{ echo "$note"; cat "$work/airflow"; } >docker/airflow/requirements.txt
{ echo "$note"; grep -vxFf "$work/airflow" "$work/both"; } >docker/airflow/requirements-runner.txt
{ echo "$note"; cat "$work/vllm"; } >docker/vllm/requirements.txt
wc -l docker/*/requirements*.txt
