"""A user's own nginx, which includes the files of a route and is checked and reloaded by commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quality_lib.adapters.nginx import connections as nginx_connections
from quality_lib.adapters.nginx.config import trial_text
from quality_lib.adapters.nginx.options import NginxOptions
from quality_lib.adapters.nginx.program import run, write_whole
from quality_lib.errors import BadInput, OutsideFailure


class UserNginx:
    """Somebody else runs it; this writes its files and tells it so."""

    def __init__(
        self,
        binary: Path | None,
        options: NginxOptions,
        check_command: Sequence[str],
        reload_command: Sequence[str],
        pid_file: Path | None,
    ) -> None:
        self._binary = binary
        self._options = options
        self._check_command = tuple(check_command)
        self._reload_command = tuple(reload_command)
        self._pid_file = pid_file

    def check(self, http_file: Path, server_file: Path) -> None:
        """Let an nginx program of this machine read files that are not in use yet.

        Raises:
            BadInput: it refuses them.
        """
        if self._binary is None:
            return  # nginx is elsewhere; `check_all` asks it
        trial = self._options.folder / ".trial.conf"
        (self._options.folder / "temporary").mkdir(parents=True, exist_ok=True)
        write_whole(trial, trial_text(http_file, server_file, self._options))
        run((str(self._binary), "-p", str(self._options.folder), "-t", "-q", "-c", str(trial)))

    def check_all(self) -> None:
        """Let the user's nginx check its whole configuration, the written files included.

        Raises:
            BadInput: it refuses it; what runs is not touched.
        """
        if self._check_command:
            run(self._check_command)

    def reload(self) -> None:
        """Make the user's nginx read its configuration.

        Raises:
            OutsideFailure: the command failed.
        """
        if not self._reload_command:
            return
        try:
            run(self._reload_command)
        except BadInput as error:
            raise OutsideFailure(f"{' '.join(self._reload_command)}: {error}") from error

    def is_running(self) -> bool:
        """Say yes: whether it answers is all that can be told of a foreign process."""
        return True

    def pids(self) -> tuple[int, ...]:
        """Return its processes where a pid file of this machine names them; else none."""
        try:
            master = int((self._pid_file or Path("/nowhere")).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return (master, *nginx_connections.children(master))
