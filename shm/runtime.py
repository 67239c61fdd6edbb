"""How a running broker is found: the runtime folder has, for each broker name, a control socket and a description.

    <folder>/<name>.sock    the coordinator's control socket; the supervisor holds it open
    <folder>/<name>.json    pid of the supervisor, its start time, the store, the generation: written last, removed first

The folder is $ORBITMQ_RUNTIME_DIR, else $XDG_RUNTIME_DIR/orbitmq, else /tmp/orbitmq-<uid>. Its mode is 0700, or 0750 once a
broker in it is open to a group. A folder that others may already look into, such as one with mode 0755 from a service manager,
keeps its mode. The files have modes of their own, because brokers that share a folder need not be open to the same users.

The store has the same description of its broker (store/broker_file.py), for clients that know the store and not the folder."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from orbitmq.errors import NoPermission, SettingError
from orbitmq.errors.remedy import as_hint, hint
from orbitmq.shm import finite_json
from orbitmq.shm.process_stat import process_stat

NAME_MAX = 64
SOCKET_PATH_MAX = 107  # sun_path of Linux, without the NUL
_PLACE = Path("/tmp")  # of the folders of users who have no XDG_RUNTIME_DIR
ASK_OPERATOR = hint("ask its operator to set {group of broker} to a group of yours")


@dataclass(frozen=True, slots=True)
class Description:
    """The content of <name>.json. generation is that of every segment of the tree; 0: clients cannot attach yet.

    boot: the machine's boot to which start_ticks belongs; empty if it is not known. folder: the runtime folder. namespace: the
    pid namespace of the supervisor. memory: the device of its /dev/shm. 0: an earlier version, which did not say.
    """

    name: str
    pid: int
    start_ticks: int
    store: str
    generation: int
    version: str
    boot: str = ""
    folder: str = ""
    namespace: int = 0
    memory: int = 0

    @property
    def socket(self) -> Path:
        """Path of the control socket."""
        return Path(self.folder, f"{self.name}.sock")


def version() -> str:
    """Version of the running program. The package's root is loaded whenever this is; an import of it here would point
    upwards."""
    return str(sys.modules["orbitmq"].__version__)


def broker_name(name: str | None) -> str:
    """The name asked for, else $ORBITMQ_BROKER, else "default".

    Raises: SettingError: the name is empty, longer than 64 characters, or neither printable nor a plain file name.
    """
    name = name if name is not None else os.environ.get("ORBITMQ_BROKER", "default")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX or "/" in name or name[0] == "." or not name.isprintable():
        raise SettingError(
            f"cannot name a broker {name!r}: it must have 1 to {NAME_MAX} printable characters, no '/', and no '.' first",
            hint="choose another name, or change ORBITMQ_BROKER",
            name="name",
            value=name,
        )
    return name


def runtime_folder() -> Path:
    """The folder in which to look for brokers. It need not exist.

    Raises: SettingError: another user could put a broker there.
    """
    folder, named = _folder()
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise SettingError(
            f"cannot look into the runtime folder {folder}: {error.strerror}",
            hint=ASK_OPERATOR if named else as_hint("set XDG_RUNTIME_DIR to a folder of your own"),
            path=str(folder),
        ) from None
    # A user who names a folder knows whose it is. The default folder must belong to this user; otherwise it is a trap.
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022 or not (named or status.st_uid == os.getuid()):
        whose = "" if named else f" that belongs to uid {os.getuid()}, and"
        raise SettingError(
            f"cannot trust the runtime folder {folder}: it is not a folder{whose} where nobody but its owner may write "
            f"(mode {stat.S_IMODE(status.st_mode):04o})",
            hint=f"use mode 0700, 0750 or 0755, or set {'ORBITMQ' if named else 'XDG'}_RUNTIME_DIR to a folder of your own",
            path=str(folder),
        )
    return folder


def check_folder(folder: Path, owners: set[int]) -> None:
    """Checks a folder that somebody else has named: it must belong to one of these users, and nobody else may write there.

    Raises: SettingError: anybody could have put a broker there.
    """
    with suppress(FileNotFoundError):  # then there is no broker that could be mistaken for another either
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022 or status.st_uid not in owners:
            raise SettingError(
                f"cannot trust the runtime folder {folder}: it is not a folder where only this user, the store's owner or root "
                f"may write (it belongs to uid {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})",
                hint="stop the broker with its process id, clear that folder away, and start the broker again",
                path=str(folder),
            )


def make_runtime_folder(group: int | None) -> Path:
    """The folder for a broker of this user, made if it does not exist. Members of the group may look into it; everybody may if
    its maker allowed that.

    Raises: SettingError: it cannot be made, belongs to another user, or is open to another group.
    """
    folder, _ = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, f"it cannot be made: {error.strerror}") from None
    status = runtime_folder().lstat()
    if status.st_uid != os.getuid():
        raise _unusable(folder, f"it belongs to uid {status.st_uid}")
    if status.st_mode & 0o005 == 0o005:
        return folder  # everybody may pass, and somebody wanted that, usually a service manager
    is_let = bool(status.st_mode & 0o070)
    if is_let and not any(map(lives, _descriptions(folder))):
        folder.chmod(0o700)  # no broker of the former group runs any more
        is_let = False
    if group is not None:
        if is_let and status.st_gid != group:
            raise _unusable(folder, f"it is let to the group {status.st_gid} already")
        os.chown(folder, -1, group)
        folder.chmod(0o750)
    return folder


def folders_of_others() -> list[Path]:
    """If nobody has named a folder: those that other users' brokers made in the same place, by name."""
    folder, named = _folder()
    if named or folder.parent != _PLACE:
        return []
    found = []
    for path in sorted(_PLACE.glob("orbitmq-*")):
        with suppress(OSError):
            if path != folder and path.name == f"orbitmq-{path.lstat().st_uid}" and stat.S_ISDIR(path.lstat().st_mode):
                found.append(path)
    return found


def _descriptions(folder: Path) -> Iterator[Description]:
    """The descriptions of all brokers that ran there and left one."""
    for path in folder.glob("*.json"):
        found = read_description(path.stem)
        if found is not None:
            yield found


def _folder() -> tuple[Path, bool]:
    """The path of the folder, and whether somebody chose it."""
    named = os.environ.get("ORBITMQ_RUNTIME_DIR")
    if named:
        return Path(named), True
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base, "orbitmq") if base else _PLACE / f"orbitmq-{os.getuid()}", False


def _unusable(folder: Path, why: str) -> SettingError:
    return SettingError(
        f"could not run a broker in the runtime folder {folder}: {why}",
        hint="set ORBITMQ_RUNTIME_DIR to a folder of its own, for the broker and its clients",
        path=str(folder),
    )


def socket_path(name: str) -> Path:
    """The path of a broker's control socket.

    Raises: SettingError: the path is longer than a Unix socket's may be.
    """
    path = runtime_folder() / f"{name}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise SettingError(
            f"could not make the control socket {path}: its path is longer than {SOCKET_PATH_MAX} bytes",
            hint="set XDG_RUNTIME_DIR to a shorter path",
            path=str(path),
        )
    return path


def description_path(name: str) -> Path:
    return runtime_folder() / f"{name}.json"


def write_description(description: Description, group: int | None) -> None:
    """The mode for files of this user, and of the group if there is one."""
    path = description_path(description.name)
    fresh = path.with_suffix(f".{description.pid}.tmp")
    fresh.write_text(json.dumps(asdict(description)))
    if group is not None:
        os.chown(fresh, -1, group)
    fresh.chmod(0o600 if group is None else 0o640)
    fresh.replace(path)


def read_description(name: str) -> Description | None:
    """The description that a running or dead broker of this name has left; None if there is nothing to read. Raises:
    SettingError; NoPermission: it belongs to another user."""
    path = description_path(name)
    try:
        return description_of(finite_json.loads(path.read_text()))
    except PermissionError:
        owner = path.parent.stat().st_uid
        raise NoPermission(
            f"could not use the broker {name!r}: uid {os.geteuid()} may not read {path}, and the folder belongs to uid {owner}",
            hint=hint(
                "run this program as uid {} || ask its operator to set {group of broker} to a group of yours", str(owner)
            ),
            broker=name,
            uid=os.geteuid(),
            maker=owner,
        ) from None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def description_of(values: dict[str, Any]) -> Description:
    """Made from the content of a file, without fields that a later version may have added. Raises: TypeError: it is not a
    description."""
    if not isinstance(values, dict):
        raise TypeError(values)
    known = {each.name for each in fields(Description)}
    return Description(**{name: value for name, value in values.items() if name in known})


def boot_id() -> str:
    """Id of the machine's boot; each boot has another one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_namespace() -> int:
    """The pid namespace of this process, by the number of its inode; 0: it is not known."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def memory_device() -> int:
    """The device of the file system at /dev/shm: two processes with different ones share no segments."""
    try:
        return Path("/dev/shm").stat().st_dev
    except OSError:
        return 0


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, which tells it from a later one with the same pid. None: there is no
    such process."""
    stat = process_stat(pid)
    return None if stat is None or stat.ended else stat.start_ticks


def user_of(pid: int) -> int | None:
    """Effective uid of a process. None: there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next(int(line.split()[2]) for line in lines if line.startswith("Uid:"))


def introduction() -> dict[str, int]:
    """The identity of this process, as the hello of a connection gives it."""
    pid = os.getpid()
    return {"pid": pid, "started": start_ticks(pid) or 0}


def lives(description: Description) -> bool:
    """True while the supervisor that wrote the description runs."""
    if description.boot not in ("", boot_id()):
        return False  # in another boot, a process with this number and these ticks is another one
    return start_ticks(description.pid) == description.start_ticks
