#!/usr/bin/env bash
# Make the secret files that docker/compose.yaml mounts, each with a random value and mode 0600, and
# docker/.env with the user id that may read them. Refuses to overwrite: to change one secret, see
# docs/deployment.md.
#
#   docker/make-secrets.sh [FOLDER]     FOLDER is docker/secrets unless given
set -euo pipefail
umask 077
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/secrets}
settings=$(dirname "$folder")/.env

# Airflow's containers run under this user id, with group 0: who made the files can read them. Root's
# files go to the image's own user, because nothing here should run as root.
reader=$(id -u)
[[ $reader != 0 ]] || reader=50000

mkdir -p "$folder"
chmod 700 "$folder"

random() { # BYTES, as hex: safe in URLs, JSON and shells
  od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'
}

airflow_password=$(random 24)
mlflow_password=$(random 24)
declare -A secrets=(
  [postgres_password]=$(random 24)
  [airflow_database_password]=$airflow_password
  [airflow_database_url]="postgresql+psycopg2://airflow:$airflow_password@postgres:5432/airflow"
  [mlflow_database_password]=$mlflow_password
  [mlflow_database_url]="postgresql+psycopg2://mlflow:$mlflow_password@postgres:5432/mlflow"
  [airflow_fernet_key]=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')
  [airflow_api_secret]=$(random 32)
  [airflow_jwt_secret]=$(random 64)
  [airflow_users]="{\"admin\": \"$(random 12)\"}"
  [s3_access_key]=$(random 10)
  [s3_secret_key]=$(random 20)
  [vllm_api_key]=$(random 24)
  [slack_webhook]="" # nothing goes to Slack until somebody writes a connection here: docs/deployment.md
)

# All or nothing: half of an old set with half of a new one would not fit together.
for name in "${!secrets[@]}"; do
  if [[ -e $folder/$name ]]; then
    echo "make-secrets: $folder/$name exists already; nothing was written." \
      "Fix: keep what is there, or move the whole folder away first (the databases keep the old passwords)" >&2
    exit 2
  fi
done

for name in "${!secrets[@]}"; do
  printf '%s' "${secrets[$name]}" >"$folder/$name"
  chmod 600 "$folder/$name"
done
if [[ $(id -u) == 0 ]]; then chown -R "$reader:0" "$folder"; fi

if [[ ! -e $settings ]]; then
  sed "s/^AIRFLOW_UID=.*/AIRFLOW_UID=$reader/" "$here/env.example" >"$settings"
  chmod 644 "$settings"
  if [[ $(id -u) == 0 ]]; then chown --reference="$here/env.example" "$settings"; fi
  echo "wrote $settings: set the model and the weights folder there"
elif ! grep -qx "AIRFLOW_UID=$reader" "$settings"; then
  echo "note: $settings should say AIRFLOW_UID=$reader, the owner of the new files" >&2
fi
echo "wrote ${#secrets[@]} secrets to $folder (mode 0600, for user id $reader)"
echo "Airflow's first login: admin, password in $folder/airflow_users"
