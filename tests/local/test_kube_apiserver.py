"""The real API server that tests and benchmarks start leaves nothing behind, whatever becomes of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import kube_apiserver
from tests.conftest import require_real
from tests.kube_apiserver import HOW, KubeApiserver, assets

START = """
import json, signal, time
from tests.kube_apiserver import KubeApiserver
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background inherits that it is ignored
with KubeApiserver() as kube:
    print(json.dumps([*kube.pids.values(), str(kube.folder)]), flush=True)
    time.sleep(60)
"""


@pytest.mark.real
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_killed_leaves_no_server_and_no_data(end: signal.Signals) -> None:
    require_real("kube-apiserver", assets(), HOW)
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        *pids, folder = json.loads(process.stdout.readline())
        assert all(alive(pid) for pid in pids)
        process.send_signal(end)
        process.wait(60)
    patience = time.monotonic() + 60
    while time.monotonic() < patience and (any(alive(pid) for pid in pids) or Path(folder).exists()):
        time.sleep(0.05)
    assert [pid for pid in pids if alive(pid)] == []
    assert not Path(folder).exists()


@pytest.mark.real
def test_a_flag_that_the_server_refuses_is_shown_at_once() -> None:
    require_real("kube-apiserver", assets(), HOW)
    with pytest.raises(RuntimeError, match="unknown flag: --nonsense"), KubeApiserver("--nonsense"):
        pass


def test_without_the_programs_it_says_how_to_have_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert assets() is None
    with pytest.raises(FileNotFoundError, match="make kube"):
        KubeApiserver()


def test_the_named_folder_is_looked_at_before_the_built_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built, named = tmp_path / "hullmark" / "kube" / kube_apiserver.VERSION, tmp_path / "named"
    for folder in (built, named):
        folder.mkdir(parents=True)
        for program in kube_apiserver.PROGRAMS:
            (folder / program).touch(0o755)
    assert assets() == built
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    assert assets() == named


def test_the_version_that_is_looked_for_is_the_one_that_is_built() -> None:
    pinned = (Path(__file__).parents[2] / "kube" / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{kube_apiserver.VERSION} " in pinned


@pytest.mark.skipif(os.name != "posix", reason="a shell script")
def test_building_without_go_says_what_to_do(tmp_path: Path) -> None:
    for tool in ("bash", "sed", "dirname"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    build = Path(__file__).parents[2] / "kube" / "build"
    answer = subprocess.run(
        [str(tmp_path / "bash"), str(build)], env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=30
    )
    assert answer.returncode == 1
    assert "KUBEBUILDER_ASSETS" in answer.stderr


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
