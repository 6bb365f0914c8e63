"""tools/adios2_mpi.py without a build: what decides which cached wheel is used."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools/adios2_mpi.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("adios2_mpi", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_wheel_without_a_patch_or_with_another_one_is_another_wheel(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [path.name for path in tool.PATCHES] == ["evpath-unique-process-id.patch"]
    key = tool.make_key("5.0.2", [])
    assert tool.make_key("5.0.2", []) == key
    changed = tmp_path / tool.PATCHES[0].name
    changed.write_text(tool.PATCHES[0].read_text().replace("0x7fffffff", "0x3fffffff"))
    keys = {key}
    for patches in ([], [changed], [*tool.PATCHES, changed]):
        monkeypatch.setattr(tool, "PATCHES", patches)
        keys.add(tool.make_key("5.0.2", []))
    assert len(keys) == 4


def test_each_patch_is_one_and_says_why(tool: ModuleType, tmp_path: Path) -> None:
    """A patch can be applied; a text for those who receive it stands above."""
    for path in tool.PATCHES:
        why, _, change = path.read_text().partition("\n---\n")
        assert len(why.splitlines()) > 5
        source = tmp_path / change.split()[1].removeprefix("a/")
        source.parent.mkdir(parents=True)
        # The lines that it expects, each where its hunk says, and nothing else between them.
        lines: dict[int, str] = {}
        number = 0
        for line in change.splitlines()[2:]:
            if line.startswith("@@"):
                number = int(line.split("-")[1].split(",")[0])
            elif not line.startswith("+"):
                lines[number] = line[1:]
                number += 1
        source.write_text("".join(lines.get(index, f"// {index}") + "\n" for index in range(1, number)))
        # `patch` itself is installed for a build only.
        command = ["git", "apply", "--verbose", "-p1", str(path.resolve())]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "offset" not in done.stderr, done.stdout + done.stderr
        assert "new_CManager_ID" in source.read_text()


def test_the_key_needs_no_build() -> None:
    key = subprocess.run([sys.executable, str(TOOL), "--print-key"], capture_output=True, text=True, check=True).stdout
    assert key.startswith("adios2-2.12.1-mpich")
