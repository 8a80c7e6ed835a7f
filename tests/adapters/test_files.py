"""Only regular files of bounded size are read, whoever names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shared.adapters.files import NotReadable, NotThere, read_regular
from shared.adapters.kubeconfig import FILE_BYTES, from_kubeconfig, in_cluster
from shared.ports import Refused
from shared.wiring import build
from shared.world import Settings


def test_a_regular_file_is_read_through_symlinks_too(tmp_path: Path) -> None:
    """A service account's token is a symlink to a symlink's file."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_bytes(b"secret")
    (tmp_path / "token").symlink_to("..data/token")
    assert read_regular(tmp_path / "token", 6) == b"secret"


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("what", "said"),
    [(fifo, "not a regular file"), (lambda _: Path("/dev/null"), "not a regular file"), (lambda _: Path("/dev/zero"), "not a regular file"),
     (lambda folder: folder, "a folder"), (lambda folder: folder / "none", "No such file"), (lambda _: Path("a\0b"), "null")],
)  # fmt: skip
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, what, said: str) -> None:
    with pytest.raises(NotReadable, match=said):
        read_regular(what(tmp_path), 1)


def test_a_missing_file_can_be_told_from_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(NotThere):
        read_regular(tmp_path / "none", 1)


def test_a_file_larger_than_its_limit_is_refused_though_it_says_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(NotReadable, match="larger than"):
        read_regular(tmp_path / "big", 10)
    with pytest.raises(NotReadable, match="larger than"):  # what /proc holds has no size
        read_regular(Path("/proc/self/maps"), 10)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key", "tokenFile", "kubeconfig"])
@pytest.mark.parametrize("what", [fifo, lambda _: Path("/dev/zero")])
def test_a_kubeconfig_and_all_it_names_are_regular_files(tmp_path: Path, key: str, what) -> None:
    bad = what(tmp_path)
    cluster = f"{{server: 'https://x', certificate-authority: '{bad}'}}" if key == "certificate-authority" else "{server: 'https://x'}"
    user = {"client-certificate": f"{{client-certificate: '{bad}', client-key-data: eA==}}", "tokenFile": f"{{tokenFile: '{bad}'}}",
            "client-key": f"{{client-certificate-data: eA==, client-key: '{bad}'}}"}.get(key, "{}")  # fmt: skip
    file = tmp_path / "config"
    file.write_text(
        f"current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        f"clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
    )
    with pytest.raises(Refused, match="not a regular file"):
        from_kubeconfig(str(bad if key == "kubeconfig" else file)).authorization()


def test_a_kubeconfig_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config").open("wb") as file:
        file.truncate(FILE_BYTES + 1)
    with pytest.raises(Refused, match="larger than 4 MiB"):
        from_kubeconfig(str(tmp_path / "config"))


@pytest.mark.timeout(20)
def test_a_pods_token_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("ca")
    os.mkfifo(tmp_path / "token")
    access = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"})
    with pytest.raises(Refused, match="not a regular file"):
        access.authorization()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", [fifo, lambda _: Path("/dev/zero"), lambda folder: folder])
def test_a_simulated_clusters_seed_is_a_regular_file(tmp_path: Path, what) -> None:
    settings = Settings(store="memory:", simulated=f"a={what(tmp_path)}")

    class NoBus:
        def publish(self, topic, messages): ...

    world = build(settings, NoBus())
    with pytest.raises(Refused, match=r"not a regular file|a folder"):
        world.open_cluster(settings.seed("a"), "a").nodes()
