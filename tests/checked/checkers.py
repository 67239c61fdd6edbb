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
SPARK = ("spark_program.py", "spark_mistakes.py")
CHECKERS = ("mypy", "pyright")

Refused = dict[tuple[str, int], str]  # by file and line, why; or what


def judge(folder: Path, python: str = sys.executable, *, spark: bool = True) -> dict[str, Refused]:
    """What each checker refuses of the program and of the mistakes, by the checker's name; one run of each.

    python: interpreter of the environment that OrbitMQ is installed in. spark: also what uses Spark, whose types take the
    checkers longer than all the rest."""
    for name in (*PROGRAM, MISTAKES, *(SPARK if spark else ())):
        shutil.copy(HERE / name, folder)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["*.py"]}')
    own = (str(path.name) for path in folder.glob("*.py"))
    mypy = ("mypy", "--strict", "--output=json", f"--python-executable={python}", "--cache-dir=cache")
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


def mistakes(*, spark: bool = True) -> Refused:
    """The lines that must be refused."""
    found = {}
    for name in (MISTAKES, *(SPARK[1:] if spark else ())):
        for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
            if line.startswith("    ") and not line.endswith("# right"):
                found[name, number] = line.strip()
    return found


def verdict(refused: Refused, *, spark: bool = True) -> str:
    """The difference between what a checker refuses and the mistakes; nothing, if they are the same."""
    wanted = mistakes(spark=spark)
    wrong = [f"{name}:{line}: accepted: {text}" for (name, line), text in wanted.items() if (name, line) not in refused]
    wrong += [f"{name}:{line}: refused: {why}" for (name, line), why in refused.items() if (name, line) not in wanted]
    return "\n".join(wrong)


def _run(folder: Path, module: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    return done.stdout
