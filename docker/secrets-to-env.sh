#!/bin/sh
# Start a program that takes its secrets only from the environment: every NAME_FILE that points into the
# secrets folder becomes NAME with the file's content. The value exists in that one process and is never
# part of the container's configuration, where `docker inspect` would show it.
#
#   secrets-to-env PROGRAM ARGUMENT...
set -eu
folder=${SECRETS_FOLDER:-/run/secrets}

for name in $(env | sed -n "s|^\([A-Za-z_][A-Za-z0-9_]*\)_FILE=${folder}/.*|\1|p"); do
  file=$(printenv "${name}_FILE")
  if [ ! -r "$file" ]; then
    echo "secrets-to-env: ${name}_FILE names $file, which user $(id -u) cannot read." \
      "Fix: run docker/make-secrets.sh on the host and start the stack with the user id it wrote to docker/.env" >&2
    exit 2
  fi
  value=$(cat "$file")
  export "$name=$value"
  unset "${name}_FILE"
done
exec "$@"
