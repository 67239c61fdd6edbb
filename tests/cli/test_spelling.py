"""Goal: users of the command see options of the command that they ran. Method: commands that fail without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from orbitmq.cli.main import named_by
from tests.cli.commands import run


def test_options_instead_of_arguments(tmp_path: Path) -> None:
    done = run("status", "--name", "one", "--store", str(tmp_path))
    assert "leave out --name, or leave out --store" in done.stderr and "name=" not in done.stderr


def test_a_setting_of_up(tmp_path: Path) -> None:
    """Goal: some settings have an option, and all have --set."""
    few = run("up", "--store", str(tmp_path / "a"), "--detach", "--log-file-size", "1M", "--retention-bytes", "5")
    assert "use --retention-bytes 3145728, or use --retention-bytes 0 for no limit, or lower --log-file-size" in few.stderr
    lane = run("up", "--store", str(tmp_path / "b"), "--detach", "--message-max", "4M", "--set", "lane_capacity=65536")
    assert "raise --set lane_capacity=..." in lane.stderr


def test_a_key_of_the_file(tmp_path: Path) -> None:
    """Goal: an error about a file names the file's keys, though the command's user reads it."""
    (tmp_path / "orbitmq").mkdir()
    (tmp_path / "orbitmq" / "settings.toml").write_text("retention_bytes = 5\n")
    done = run("up", "--store", str(tmp_path), "--detach", "--log-file-size", "1M")
    assert "use retention_bytes = 3145728" in done.stderr and "use --retention-bytes" not in done.stderr


def test_a_command_is_made_alone() -> None:
    """Goal: for one command, not all of them are made; it is the same, and words that name none get all. Method: what the
    command's options are and what its help says, for each name."""
    every = typer.main.get_command(named_by([]))
    for name, whole in every.commands.items():
        alone = typer.main.get_command(named_by([name, "--help"]))
        assert [*alone.commands] == [name]
        assert _shown(alone.commands[name]) == _shown(whole)
    for words in ([], ["--version"], ["--help"], ["stauts"]):
        assert typer.main.get_command(named_by(words)).commands.keys() == every.commands.keys()


def _shown(command: Any) -> list[Any]:
    inner = [_shown(each) for each in getattr(command, "commands", {}).values()]
    return [command.name, command.help, [parameter.opts for parameter in command.params], *inner]
