"""What `make setup` refuses and when it knows that there is nothing to do; no network, no install."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout whose environment claims to be complete."""
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    for script in ("setup.sh", "uv_settings.sh"):
        shutil.copy(ROOT / "scripts" / script, folder / "scripts")
    (folder / "requirements.txt").write_text("six==1.17.0\n")
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
    for program in ("python", "quality"):
        executable(folder / ".venv" / "bin" / program, "exit 0")
    stamp(folder)
    return folder


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return path


def stamp(folder: Path) -> None:
    """Compute the key as the script does, so that a change of its recipe fails here."""
    recipe = (
        '{ cat requirements.txt pyproject.toml scripts/setup.sh; echo "cpu $PWD"; }'
        " | sha256sum | cut -d' ' -f1 > .venv/.setup-done"
    )
    subprocess.run(["bash", "-c", recipe], cwd=folder, check=True)


def setup(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "scripts" / "setup.sh")],
        env={"PATH": os.environ["PATH"], "PYTHON": "/no/such/python", **env},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_nothing_is_done_when_all_is_there(project: Path) -> None:
    done = setup(project)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("change", ["lock", "metadata", "engine", "moved", "python gone", "stamp"])
def test_a_change_calls_for_work_and_takes_the_stamp_away(project: Path, change: str) -> None:
    env = {}
    match change:
        case "lock":
            (project / "requirements.txt").write_text("six==1.16.0\n")
        case "metadata":
            (project / "pyproject.toml").write_text('[project]\nname = "y"\n')
        case "engine":
            env["ENGINE"] = "gpu"
        case "moved":
            project = project.rename(project.with_name("elsewhere"))
        case "python gone":
            (project / ".venv" / "bin" / "python").unlink()
            (project / ".venv" / "bin" / "python").symlink_to("/no/such/python3.11")
        case "stamp":
            (project / ".venv" / ".setup-done").unlink()
    done = setup(project, **env)
    # It went to work and met the interpreter that does not exist.
    assert done.returncode == 3
    assert "there is no /no/such/python" in done.stderr
    assert not (project / ".venv" / ".setup-done").exists()


@pytest.mark.parametrize(
    ("python", "message", "advice"),
    [
        ("echo 3.9; [[ $2 != *exit* ]]", "is Python 3.9; 3.11 or newer is needed", "PYTHON="),
        ("echo 3.12; [[ $2 != *ensurepip* ]]", "virtual environments", "python3.12-venv"),
        ("exit 127", "does not run", "PYTHON="),
    ],
)
def test_an_unfit_interpreter_is_told(
    project: Path, python: str, message: str, advice: str
) -> None:
    (project / ".venv" / ".setup-done").unlink()
    fake = executable(project / "fake-python", python)
    done = setup(project, PYTHON=str(fake))
    assert done.returncode == 3
    assert message in done.stderr
    assert advice in done.stderr


def test_an_unknown_engine_is_told(project: Path) -> None:
    done = setup(project, ENGINE="tpu")
    assert done.returncode == 3
    assert "use ENGINE=cpu or ENGINE=gpu" in done.stderr


@pytest.mark.parametrize(
    ("pip_settings", "env", "told"),
    [
        ("", {}, {"UV_SYSTEM_CERTS=true"}),
        ("", {"UV_SYSTEM_CERTS": "false"}, {"UV_SYSTEM_CERTS=false"}),
        (
            "global.cert='/my/ca.pem'",
            {},
            {"SSL_CERT_FILE=/my/ca.pem", "UV_SYSTEM_CERTS=true"},
        ),
        (
            "global.index-url='http://a'\ninstall.index-url='http://b'",
            {},
            {"UV_DEFAULT_INDEX=http://b", "UV_SYSTEM_CERTS=true"},
        ),
        (
            ":env:.index-url='http://c'\nglobal.index-url='http://a'",
            {},
            {"UV_DEFAULT_INDEX=http://c", "UV_SYSTEM_CERTS=true"},
        ),
        (
            "global.index-url='http://a'",
            {"UV_DEFAULT_INDEX": "http://d"},
            {"UV_DEFAULT_INDEX=http://d", "UV_SYSTEM_CERTS=true"},
        ),
    ],
)
@pytest.mark.skipif(
    not Path("/etc/ssl/certs/ca-certificates.crt").exists(), reason="no certificates of the machine"
)
def test_uv_uses_what_pip_uses(
    project: Path, pip_settings: str, env: dict[str, str], told: set[str]
) -> None:
    seen, _ = installed(project, pip_settings, **env)
    names = ("UV_SYSTEM_CERTS=", "SSL_CERT_FILE=", "UV_DEFAULT_INDEX=")
    assert {line for line in seen if line.startswith(names)} == told


def test_torch_comes_from_a_folder_that_has_it_or_else_from_its_own_index(project: Path) -> None:
    wheels = project / "wheels"
    wheels.mkdir()
    settings = rf"global.find-links='\n/no/such\n{wheels}'"
    folders = f"--find-links /no/such --find-links {wheels}"
    _, command = installed(project, settings)
    assert f"{folders} --torch-backend cpu" in command
    (wheels / "torch-2.13.0+cpu-cp311.whl").touch()
    _, command = installed(project, settings)
    assert folders in command
    assert "--torch-backend" not in command


def installed(project: Path, pip_settings: str, **env: str) -> tuple[list[str], str]:
    """Return the environment and the command line in which the script asked uv for the packages."""
    binaries = project / ".venv" / "bin"
    (project / ".venv" / ".setup-done").unlink()
    (project / ".venv" / "pyvenv.cfg").write_text(f"command = python -m venv {project}/.venv\n")
    (project / "pip-settings").write_text(pip_settings)
    executable(binaries / "python", f'[[ $3 != config ]] || cat "{project}/pip-settings"')
    python = executable(project / "fake-python", '[[ $2 != *print* ]] || echo "3.11"')
    executable(
        binaries / "uv",
        f"""if [[ $1 == --version ]]; then echo "uv $UV"; exit; fi
        if [[ $* == *requirements.txt* ]]; then env > {project}/env; echo "$*" > {project}/command; fi""",
    )
    script = (project / "scripts" / "setup.sh").read_text()
    version = next(li for li in script.splitlines() if li.startswith("uv_version="))
    done = setup(project, PYTHON=str(python), UV=version.partition("=")[2], **env)
    assert done.returncode == 0, done.stderr
    return (project / "env").read_text().splitlines(), (project / "command").read_text()


def test_make_explains_every_target() -> None:
    make = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True
    )
    told = {line.split()[1] for line in make.stdout.splitlines() if line.strip()}
    phony = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY")
    )
    assert told == set(phony.split()[1:])
