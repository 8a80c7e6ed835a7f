"""The container image: its Dockerfile is linted and played on this machine, and built where a builder is to be had."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from local import steps
from local.cloud.emulator import free_port
from local.container import served
from local.steps import ROOT
from tests.api.identities import id_token
from tests.conftest import require_real
from tests.terraform.deployed import installed

DOCKERFILE = (ROOT / "Dockerfile").read_text()


@dataclass
class Image:
    """What the Dockerfile makes of the repository, without the layers below: files, environment, entry point."""

    root: Path
    environment: dict[str, str]
    entrypoint: list[str]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        outside = {"PATH": f"{installed()}:{os.environ['PATH']}", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
        return subprocess.Popen(
            [*self.entrypoint, *arguments], cwd=self.root, env={**outside, **self.environment, **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def says(self, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(*arguments, **environment)
        out, _ = process.communicate(timeout=120)
        return process.returncode, out.decode()


def instructions() -> Iterator[tuple[str, str]]:
    for line in re.sub(r"\\\n", " ", DOCKERFILE).splitlines():
        if line and not line.startswith("#"):
            yield line.partition(" ")[0], line.partition(" ")[2].strip()


def ignored(path: Path) -> bool:
    """Whether .dockerignore leaves a path out: the last rule that matches it or a folder above it counts."""
    name, out = path.relative_to(ROOT).as_posix(), False
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        if not rule or rule.startswith("#"):
            continue
        pattern = rule.removeprefix("!")
        above = [name, *(parent.as_posix() for parent in Path(name).parents if parent != Path())]
        deep = pattern.removeprefix("**/")
        if any(fnmatch(each, pattern) or (pattern != deep and fnmatch(each.rpartition("/")[2], deep)) for each in above):
            out = not rule.startswith("!")
    return out


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    root = tmp_path_factory.mktemp("image")
    made = Image(root, {}, [])
    for instruction, rest in instructions():
        match instruction:
            case "COPY":
                source, target = rest.split()
                for path in [ROOT / source, *(ROOT / source).rglob("*")]:
                    if path.is_file() and not ignored(path):
                        place = root / target / path.relative_to(ROOT / source) if (ROOT / source).is_dir() else root / source
                        place.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(path, place)
            case "ENV":
                made.environment |= dict(pair.split("=", 1) for pair in rest.replace("/workspace", str(root)).split())
            case "ENTRYPOINT":
                made.entrypoint = json.loads(rest)
    return made


def test_the_dockerfile_is_linted() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    require_real("hadolint", hadolint.exists(), "make install")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_holds_the_source_and_nothing_that_lies_about(image: Image) -> None:
    assert sorted(path.name for path in image.root.iterdir()) == ["examples", "functions", "local", "requirements.txt", "shared"]
    assert ignored(ROOT / "terraform" / "examples" / "deploy" / "terraform.tfstate")
    assert ignored(ROOT / "local" / ".env")
    assert ignored(ROOT / ".hullmark" / "store")
    assert "USER 65532" in DOCKERFILE
    assert "--require-hashes" in DOCKERFILE


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", list(steps.load().steps))
def test_the_image_serves_each_function(name: str, image: Image, tmp_path: Path) -> None:
    port = free_port()
    settings = {"HULLMARK_STORE": f"file:{tmp_path}", "HULLMARK_BUS": "pubsub", "HULLMARK_PROJECT": "p", "HULLMARK_IDENTITY": "cloud-run"}
    process = image.start("function", name, PORT=str(port), PUBSUB_EMULATOR_HOST="127.0.0.1:1", **settings)
    try:
        assert status(port, process) in (200, 204, 400, 401, 404, 405, 500)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0].decode()
    assert not [wrong for wrong in ("ModuleNotFoundError", "ImportError", "SettingsError") if wrong in said], said[-3000:]


def status(port: int, process: subprocess.Popen[bytes]) -> int:
    """The first answer to a push, once it listens."""
    body = {"message": {"data": "e30=", "messageId": "1", "attributes": {}}}
    headers = {"Content-Type": "application/json", "Authorization": id_token(email="ada@example.com")}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/projects/p/topics/t", json.dumps(body).encode(), headers)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0].decode()[-3000:]
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            time.sleep(0.1)
    raise AssertionError("it does not answer")


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_the_image_is_the_command_too(image: Image, tmp_path: Path) -> None:
    code, said = image.says("--help")
    assert code == 0, said
    assert "relabel" in said
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: hullmark.dev/v1\nkind: NodeLabelPolicy\nmetadata: {name: p}\nspec: {labels: {a: b}}\n")
    code, said = image.says("validate", "-f", str(policy), "-o", "json")
    assert code == 0, said
    assert json.loads(said)["valid"] is True
    code, said = image.says("function", "of_nobody")
    assert code == 1
    assert "node_apply" in said


def test_a_function_gets_what_terraform_would_set_under_what_is_set_already() -> None:
    command, environment = served("node_apply", {"PORT": "9090", "THREADS": "1"})
    assert command == ["functions-framework", "--source", "functions/node_apply/main.py", "--target", "node_apply", "--port", "9090"]
    assert (environment["THREADS"], environment["HULLMARK_TIMEOUT_SECONDS"]) == ("1", str(steps.load().steps["node_apply"].timeout))
    assert served("api_reader", {})[0][2] == "functions/api/main.py"


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_the_image_builds_where_there_is_a_builder() -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no docker daemon here: the Dockerfile is linted and played instead")
    built = subprocess.run([docker, "build", "--quiet", ROOT], capture_output=True, text=True, check=True).stdout.strip()
    said = subprocess.run([docker, "run", "--rm", built, "--help"], capture_output=True, text=True, check=True).stdout
    assert "validate" in said
