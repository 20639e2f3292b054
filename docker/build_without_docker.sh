#!/usr/bin/env bash
# Build the images on a machine without a Docker engine, on a stand-in for their base images, and try
# what can be tried there: parse the DAGs inside the Airflow image, import the serving part of the
# library inside the GPU image. Needs root, buildah and debootstrap; all it makes lies in one folder
# under ${TMPDIR:-/tmp}, which is removed at the end.
#
#   docker/build_without_docker.sh [--with-runner] [--base DIR] [--keep]
#
#   --with-runner  also build the runner image (adds PyTorch; a few minutes more)
#   --base DIR     use the Debian tree in DIR; if DIR does not exist, make it there and leave it for the
#                  next time (saves the 90 s of debootstrap)
#   --keep         leave images, base and logs, and say where they are
#
# Exit codes: 0 good, 1 a build or a check failed, 2 wrong use or something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

runner=false keep=false base=""
while (($#)); do
  case $1 in
    --with-runner) runner=true ;;
    --keep) keep=true ;;
    --base) base=${2:?--base needs a folder}; shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "unknown option $1; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done

missing=()
for tool in buildah debootstrap; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if ((${#missing[@]})); then
  echo "missing: ${missing[*]}. Fix: apt-get update && apt-get install -y ${missing[*]}" >&2
  exit 2
fi
[[ $(id -u) == 0 ]] || { echo "debootstrap and chroot builds need root. Fix: sudo $0" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/vllm-quality-images.XXXXXX")
export BUILDAH_ISOLATION=chroot
buildah() {
  TMPDIR=$work command buildah --root "$work/storage" --runroot "$work/run" --storage-driver "$driver" "$@"
}
# Overlay mounts are several times faster than vfs, which copies every layer, but not every kernel or
# container gives them.
driver=${STORAGE_DRIVER:-overlay}
if [[ -z ${STORAGE_DRIVER:-} ]] && ! buildah mount "$(buildah from scratch)" >/dev/null 2>&1; then
  rm -rf "$work/storage" "$work/run"
  driver=vfs
fi
unset STORAGE_DRIVER
buildah rm --all >/dev/null 2>&1 || true

layers=true
[[ $driver != vfs ]] || layers=false

log=/dev/null
cleanup() {
  local status=$?
  if ((status)); then
    echo "FAILED (exit $status); the end of $log:" >&2
    tail -n 40 "$log" >&2 || true
  fi
  buildah rm --all >/dev/null 2>&1 || true
  if $keep; then
    echo "kept in $work; see them with: buildah --storage-driver $driver --root $work/storage --runroot $work/run images"
  else
    buildah rmi --all --force >/dev/null 2>&1 || true
    # Nothing of the host should be mounted below it any more; if something is, it must survive.
    rm -rf --one-file-system "$work"
  fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

begun=$SECONDS
step() { printf '%4d s  %s\n' $((SECONDS - begun)) "$*"; }

# pip inside the build asks the same indexes as pip here: its settings become one pip.conf, and that file,
# the certificates and the local folders it names are mounted while RUN steps run. None of it stays in
# the image.
mounts=()
mount_for_builds() { [[ -e $1 ]] && mounts+=(--volume "$(realpath "$1"):${2:-$1}:ro"); return 0; }

python3 - "$work/pip.conf" >"$work/pip-paths" <<'PY'
import pathlib, re, subprocess, sys

listed = subprocess.run(
    [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
).stdout
settings = {}
for line in listed.splitlines():
    name, _, value = line.partition("=")
    section, _, key = name.partition(".")
    # The lock says every version; the host's own constraints and habits stay out.
    if section in {"global", "install", ":env:"} and key not in {"user", "constraint", "require-virtualenv"}:
        settings[key] = value.strip("'\"").replace("\\n", "\n")
lines = ["[global]"] + [f"{key} = " + "\n    ".join(value.split()) for key, value in settings.items()]
pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
for place in re.findall(r"(?:^|\s|file://)(/[^\s]+)", "\n".join(settings.values())):
    # The pages of a local index name files beside it.
    print(place.removesuffix("/simple"))
PY
mount_for_builds "$work/pip.conf" /etc/pip.conf
while read -r place; do mount_for_builds "$place"; done < <(sort -u "$work/pip-paths")
grep -qx /etc/ssl/certs/ca-certificates.crt "$work/pip-paths" || mount_for_builds /etc/ssl/certs/ca-certificates.crt

# The official bases: Debian bookworm with Python 3.11 stands in for both.
made_base=${base:-$work/base}
if [[ ! -x $made_base/usr/bin/python3 ]]; then
  step "base: debootstrap bookworm"
  log=$work/debootstrap.log
  debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates \
    bookworm "$made_base" >"$log" 2>&1
fi
step "base: import (storage: $driver)"
container=$(buildah from scratch)
cp -a "$made_base/." "$(buildah mount "$container")/"
buildah umount "$container" >/dev/null
buildah commit --quiet "$container" localhost/stand-in:bookworm >/dev/null
buildah rm "$container" >/dev/null
[[ -n $base ]] || rm -rf "$made_base"

build() { # NAME DOCKERFILE ARGUMENT...
  local name=$1 dockerfile=$2
  log=$work/${name//[:\/]/-}.log
  shift 2
  step "build $name"
  # Layers let the runner start where the Airflow image ended; vfs would copy the whole tree for each.
  buildah build --format docker --layers="$layers" --pull-never "${mounts[@]}" \
    --ignorefile "$dockerfile.dockerignore" --file "$dockerfile" --tag "localhost/$name" "$@" . \
    >"$log" 2>&1
  step "built $name: $(buildah images --format '{{.Size}}' "localhost/$name")"
}

parse_dags() { # IMAGE
  local container
  log=$work/parse.log
  container=$(buildah from --pull-never "localhost/$1")
  step "parse the DAGs inside $1"
  buildah run --volume "$PWD/docker/quality.yaml:/etc/quality/quality.yaml:ro" "$container" -- \
    python - <docker/airflow/parse_dags.py >"$log" 2>&1
  buildah rm "$container" >/dev/null
  tail -n 1 "$log"
}

build vllm-quality-airflow:check docker/airflow/Dockerfile --target airflow --build-arg BASE=localhost/stand-in:bookworm
parse_dags vllm-quality-airflow:check

if $runner; then
  # Where pip already has a folder of wheels with the CPU build, PyTorch's own index is not needed.
  index=()
  [[ -n ${PIP_FIND_LINKS:-} ]] && compgen -G "${PIP_FIND_LINKS}/torch-*+cpu-*.whl" >/dev/null && index=(--build-arg TORCH_INDEX=)
  build vllm-quality-runner:check docker/airflow/Dockerfile --target runner \
    --build-arg BASE=localhost/stand-in:bookworm "${index[@]}"
  parse_dags vllm-quality-runner:check
  log=$work/embed.log
  step "compare two sentences inside vllm-quality-runner:check"
  container=$(buildah from --pull-never localhost/vllm-quality-runner:check)
  buildah run "$container" -- python -c "
from quality_lib.adapters.model.embeddings import SentenceSimilarity
(same, other) = SentenceSimilarity()([('A cat sleeps.', 'A cat is asleep.'), ('A cat sleeps.', 'Tax law changed.')])
print(f'similarity: {same:.2f} the same, {other:.2f} another')
assert same > 0.8 > 0.4 > other
" >"$log" 2>&1
  tail -n 1 "$log"
  buildah rm "$container" >/dev/null
fi

# The official vLLM image is too large to stand in for. What counts here: the image's own layers install
# beside packages that vLLM brings, change none of them, and what vLLM loads from the library imports.
log=$work/gpu-base.log
step "base of the GPU image: what vLLM brings and the library's serving part imports"
container=$(buildah from --pull-never localhost/stand-in:bookworm)
buildah run "${mounts[@]}" --volume "$PWD/requirements.txt:/tmp/lock.txt:ro" "$container" -- \
  python3 -m pip install --no-cache-dir --break-system-packages -c /tmp/lock.txt \
  fastapi httpx jinja2 jsonschema msgspec numpy prometheus-client psutil pydantic pyyaml regex rich typer >"$log" 2>&1
buildah commit --quiet "$container" localhost/stand-in-vllm:bookworm >/dev/null
build vllm-quality-vllm:check docker/vllm/Dockerfile --build-arg BASE=localhost/stand-in-vllm:bookworm
container=$(buildah from --pull-never localhost/vllm-quality-vllm:check)
log=$work/import.log
step "import what vLLM loads, inside vllm-quality-vllm:check"
buildah run "$container" -- python3 -c \
  "import quality_lib.serving.introspection, quality_lib.serving.guard, quality_lib.serving.live_weights_worker" >"$log" 2>&1
buildah rm "$container" >/dev/null

step "all good"
