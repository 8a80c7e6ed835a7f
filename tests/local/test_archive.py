"""The source archive: complete, the same for the same sources, and refused where it would not build."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from local import steps
from local.deploy.archive import NotArchived, packed, sources, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "requirements.txt": "x==1 --hash=sha256:0\n",
        "functions/steps.yaml": "steps: {}\n",
        "functions/a/main.py": "A = 1\n",
        "shared/b.py": "B = 2\n",
        "local/c.py": "not python\n",
        "tests/test_d.py": "not python either\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_it_holds_the_functions_and_what_they_import_and_nothing_else(tree: Path) -> None:
    assert list(sources(tree)) == ["functions/a/main.py", "functions/steps.yaml", "requirements.txt", "shared/b.py"]


def test_the_same_sources_give_the_same_bytes_whatever_their_times_modes_and_caches(tree: Path) -> None:
    before = packed(sources(tree))
    os.utime(tree / "shared" / "b.py", (1, 1))
    (tree / "shared" / "b.py").chmod(0o755)
    (tree / "shared" / "__pycache__").mkdir()
    (tree / "shared" / "__pycache__" / "b.cpython-312.pyc").write_bytes(b"x")
    (tree / "shared" / ".b.py.swp").write_bytes(b"x")
    assert packed(sources(tree)) == before


def test_its_name_follows_its_content_and_the_older_one_goes(tree: Path) -> None:
    first = write(tree / "dist", tree)
    assert write(tree / "dist", tree) == first
    (tree / "shared" / "b.py").write_text("B = 3\n")
    second = write(tree / "dist", tree)
    assert second != first
    assert [path.name for path in (tree / "dist").iterdir()] == [second.name]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda tree: (tree / "shared" / "b.py").write_text("def f(:\n"), "shared/b.py:1"),
        (lambda tree: (tree / "shared" / "key.pem").write_text("secret"), "shared/key.pem"),
        (lambda tree: (tree / "shared" / "out.py").symlink_to(tree / "local" / "c.py"), "shared/out.py"),
        (lambda tree: (tree / "requirements.txt").write_text("x==1\n"), "has no hashes"),
        (lambda tree: (tree / "requirements.txt").unlink(), "make lock"),
    ],
    ids=["a syntax error", "a file of another kind", "a link", "no hashes", "no requirements"],
)
def test_what_would_not_build_is_refused_by_name(tree: Path, spoil: Callable[[Path], object], said: str) -> None:
    spoil(tree)
    with pytest.raises(NotArchived, match=said):
        sources(tree)


def test_ours_holds_every_function(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path)) as archive:
        names = set(archive.namelist())
    present = {f"functions/{step.folder}/main.py" for step in steps.load().steps.values()}
    assert present <= names
    assert "functions/steps.yaml" in names
    assert not [name for name in names if name.startswith(("local/", "tests/", "terraform/"))]
