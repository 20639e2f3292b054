"""The folder of the local Airflow: its configuration, its one user and its secrets."""

from __future__ import annotations

import configparser
import io
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from quality_lib.adapters.engine import log as engine_log
from quality_lib.adapters.machine.private_files import kept_secret, write_private
from quality_lib.adapters.stack.processes import Part
from quality_lib.errors import OutsideFailure

USER = "admin"
PARALLELISM = 2
"""Tasks at once; Airflow starts that many workers of 130 MB each (facts of the default: 32)."""

DATABASE_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class AirflowHome:
    """An ``AIRFLOW_HOME`` of our own; everything in it is readable for its owner only."""

    folder: Path
    repository: Path
    """The checkout whose ``dags`` and ``plugins`` are served."""
    has_schedules: bool = True
    """Whether DAGs run by their schedules too, or only when somebody triggers them."""

    @property
    def password(self) -> str:
        """The password of the one user; made the first time it is asked for."""
        return kept_secret(self.folder / "password", 12)

    def write(self, port: int) -> str:
        """Write the configuration for this port; return its text."""
        passwords = self.folder / "passwords.json"
        write_private(passwords, json.dumps({USER: self.password}) + "\n")
        text = _as_ini(self._configuration(port, passwords))
        write_private(self.folder / "airflow.cfg", text)
        return text

    def prepare_database(self, server: Part, progress: Callable[[str], None]) -> None:
        """Bring the database to the shape that the installed Airflow wants.

        Raises:
            OutsideFailure: with the last error lines and the path of the log.
        """
        stamp = self.folder / "database-version"
        installed = metadata.version("apache-airflow-core")
        exists = (self.folder / "airflow.db").exists() and stamp.exists()
        if exists and stamp.read_text(encoding="utf-8") == installed:
            return
        progress("airflow: preparing its database")
        log = self.folder / "database.log"
        try:
            with log.open("wb") as output:
                code = subprocess.run(
                    [*server.command[:3], "db", "migrate"],
                    env={**server.surroundings, **server.settings},
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=DATABASE_TIMEOUT_S,
                    check=False,
                ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OutsideFailure(f"Airflow's database cannot be prepared: {error}") from error
        if code != 0:
            said = " | ".join(engine_log.last_errors(log))
            raise OutsideFailure(
                f"Airflow's database cannot be prepared (exit code {code}). "
                f"It said: {said} Its log: {log}"
            )
        stamp.write_text(installed, encoding="utf-8")

    def _configuration(self, port: int, passwords: Path) -> Mapping[str, Mapping[str, object]]:
        address = f"http://127.0.0.1:{port}"
        secret = {
            name: kept_secret(self.folder / "secrets" / name, 48) for name in ("jwt", "session")
        }
        return {
            "core": {
                "dags_folder": self.repository / "dags",
                "plugins_folder": self.repository / "plugins",
                "executor": "LocalExecutor",
                "parallelism": PARALLELISM,
                "load_examples": False,
                # Nothing runs by its schedule until somebody asks for it.
                "dags_are_paused_at_creation": True,
                "simple_auth_manager_users": f"{USER}:admin",
                "simple_auth_manager_passwords_file": passwords,
                "execution_api_server_url": f"{address}/execution/",
                "fernet_key": _fernet_key(self.folder / "secrets" / "fernet"),
            },
            "database": {"sql_alchemy_conn": f"sqlite:///{self.folder}/airflow.db"},
            "api": {
                "host": "127.0.0.1",
                "port": port,
                "base_url": address,
                "workers": 1,
                "secret_key": secret["session"],
                "expose_config": False,
            },
            "api_auth": {"jwt_secret": secret["jwt"]},
            "logging": {"base_log_folder": self.folder / "logs", "logging_level": "INFO"},
            "dag_processor": {
                "parsing_processes": 1,
                "refresh_interval": 30,
                "min_file_process_interval": 60,
            },
            # Seconds. With a half, the idle scheduler took a fifth of a core from the model.
            "scheduler": {
                "scheduler_idle_sleep_time": 2.0,
                "use_job_schedule": self.has_schedules,
            },
        }


def _fernet_key(path: Path) -> str:
    # 32 bytes in URL-safe base64, with the padding that the cryptography package wants.
    return kept_secret(path, 32).rstrip("=") + "="


def _as_ini(configuration: Mapping[str, Mapping[str, object]]) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    for section, options in configuration.items():
        # Airflow interpolates, so a per cent sign in a path must be doubled.
        parser[section] = {key: str(value).replace("%", "%%") for key, value in options.items()}
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()
