#!/bin/sh
# One database and one role each for Airflow and MLflow; PostgreSQL runs this once, on an empty volume.
# The passwords come from secret files (secrets-to-env) and never appear on a command line.
set -eu

create() { # NAME PASSWORD
  ROLE_PASSWORD=$2 psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres --set name="$1" <<'SQL'
\getenv password ROLE_PASSWORD
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

create airflow "$AIRFLOW_DATABASE_PASSWORD"
create mlflow "$MLFLOW_DATABASE_PASSWORD"
