"""Manifests on disk: which are read, and that they are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from local.manifests.files import ChangedMeanwhile, read_if, replace, walk
from shared.domain.manifests.findings import Bytes


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_tree_is_walked_in_order_without_repositories_links_and_other_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/t/_helpers.tpl", "x.json", "deploy.yaml.gotmpl", ".git/config.yaml", "README.md", "main.go"):
        write(tmp_path / name)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "b.yaml")
    (tmp_path / "loop").symlink_to(tmp_path)

    assert [os.path.relpath(file, tmp_path) for file in walk(str(tmp_path))] == [
        "a/c.yml",
        "a/t/_helpers.tpl",
        "b.yaml",
        "deploy.yaml.gotmpl",
        "x.json",
    ]


def test_a_file_named_outright_is_read_whatever_its_name(tmp_path: Path) -> None:
    assert list(walk(str(write(tmp_path / "run.sh")))) == [str(tmp_path / "run.sh")]


@pytest.mark.parametrize("size", [10, 3 << 20])
def test_a_file_comes_into_memory_only_if_it_is_wanted(tmp_path: Path, size: int) -> None:
    plain = write(tmp_path / "plain.yaml", b"." * size)
    wanted = write(tmp_path / "wanted.yaml", b"." * size + b"needle")
    binary = write(tmp_path / "binary.yaml", b"\0" * size + b"needle")

    def look(data: Bytes) -> bool:
        return data.find(b"needle") >= 0

    assert read_if(str(plain), look) is None
    assert read_if(str(binary), look) is None
    assert read_if(str(wanted), look) == b"." * size + b"needle"


def test_a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", b"old")
    file.chmod(0o640)

    replace(str(file), b"old", b"new")

    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_link_stays_a_link_and_its_target_changes(tmp_path: Path) -> None:
    target = write(tmp_path / "real" / "a.yaml", b"old")
    link = tmp_path / "link.yaml"
    link.symlink_to("real/a.yaml")

    replace(str(link), b"old", b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", b"edited")

    with pytest.raises(ChangedMeanwhile, match="run again"):
        replace(str(file), b"old", b"new")

    assert file.read_bytes() == b"edited"
    assert os.listdir(tmp_path) == ["a.yaml"]
