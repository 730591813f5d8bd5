"""The package as installed: its types are correct and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


def test_types_hold(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}"]
    checked = subprocess.run(
        [*command, "-p", "curtail"], cwd=PACKAGE, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    use = tmp_path / "use.py"
    use.write_text("import curtail\n\ncurtail.simulate(shards='many')\n")
    # From another folder, to check that the types are installed.
    checked = subprocess.run([*command, use], cwd=tmp_path, capture_output=True, text=True)
    assert 'incompatible type "str"; expected "int"' in checked.stdout


def test_the_example_runs(tmp_path: Path) -> None:
    example = PACKAGE / "examples" / "hiccups.py"
    ran = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "laedge" in ran.stdout


def test_the_examples_of_the_manual_run(tmp_path: Path) -> None:
    manual = (PACKAGE.parent / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    assert len(blocks) >= 4
    (tmp_path / "service-times.txt").write_text("".join(f"{i % 97 + 1}ms\n" for i in range(2000)))
    script = "\n".join(blocks)
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
