"""mypy and pyright, run as a user runs them: strictly, in a folder of the user's own, with an installed OrbitMQ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = ("program.py", "with_arrow.py")
MISTAKES = "mistakes.py"
CHECKERS = ("mypy", "pyright")

Refused = dict[tuple[str, int], str]  # by file and line, why


def judge(folder: Path, python: str = sys.executable, cache: Path | None = None) -> dict[str, Refused]:
    """What each checker refuses of the program and of the mistakes, by the checker's name; one run of each.

    python: interpreter of the environment that OrbitMQ is installed in. cache: mypy's, which runs may share."""
    for name in (*PROGRAM, MISTAKES):
        shutil.copy(HERE / name, folder)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["*.py"]}')
    own = (str(path.name) for path in folder.glob("*.py"))
    mypy = ("mypy", "--strict", "--output=json", f"--python-executable={python}", f"--cache-dir={cache or folder / 'cache'}")
    lines = [json.loads(line) for line in _run(folder, *mypy, *own).splitlines()]
    found = json.loads(_run(folder, "pyright", f"--pythonpath={python}", "--outputjson"))["generalDiagnostics"]
    return {
        "mypy": {(each["file"], each["line"]): each["message"] for each in lines if each["severity"] == "error"},
        "pyright": {
            (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
            for each in found
            if each["severity"] == "error"
        },
    }


def mistakes() -> dict[int, str]:
    """The lines that must be refused."""
    lines = enumerate((HERE / MISTAKES).read_text().splitlines(), 1)
    return {number: line.strip() for number, line in lines if line.startswith("    ") and not line.endswith("# right")}


def verdict(refused: Refused) -> str:
    """The difference between what a checker refuses and the mistakes; nothing, if they are the same."""
    wrong = [f"{name}:{line}: refused: {why}" for (name, line), why in refused.items() if name != MISTAKES]
    wanted, seen = mistakes(), {line for name, line in refused if name == MISTAKES}
    wrong += [f"{MISTAKES}:{line}: accepted: {text}" for line, text in wanted.items() if line not in seen]
    wrong += [f"{MISTAKES}:{line}: refused: {refused[MISTAKES, line]}" for line in sorted(seen - wanted.keys())]
    return "\n".join(wrong)


def _run(folder: Path, module: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    return done.stdout
