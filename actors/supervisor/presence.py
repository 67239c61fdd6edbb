"""How others find a tree: the control socket and the description in the runtime folder, and the description in the store.

The name is taken before the store is recovered and given back at the end, under the runtime folder's lock, because two trees
may want it. Programs that clean temporary folders know nothing of brokers, so the supervisor checks from time to time what is
left there, and makes again what is gone.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from orbitmq.actors import events
from orbitmq.actors.trouble import Trouble
from orbitmq.errors import OrbitError, SettingError
from orbitmq.shm import runtime
from orbitmq.shm.apart import lives_elsewhere
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.file_id import FileId
from orbitmq.shm.folder_lock import folder_lock
from orbitmq.store import broker_file
from orbitmq.store.settings.tree_settings import TreeSettings

# For trees that take or give back a name in the same folder. That is over in milliseconds, unless the process was stopped.
PATIENCE_S = 3.0


class Presence:
    """lock: the store's, which the caller holds.

    Raises: SettingError: another broker runs under the name, or the runtime folder cannot be used; OSError.
    """

    def __init__(self, settings: TreeSettings, lock: FileId) -> None:
        self._settings = settings
        self._lock = lock
        self._generation = 0  # says that nobody can attach yet
        self._trouble = Trouble()
        self._written: FileId | None = None
        self._bound: FileId | None = None
        self._listener: socket.socket | None = None
        self._take(PATIENCE_S)

    @property
    def listener(self) -> socket.socket:
        """The control socket that is bound now."""
        assert self._listener is not None
        return self._listener

    def announce(self, generation: int) -> runtime.Description:
        """From now on clients can attach. Returns the description that they read. The control socket may be another one
        afterwards."""
        self._generation = generation
        self._take(PATIENCE_S)
        return self._description()

    def look(self) -> None:
        """Makes again what was removed. The control socket may be another one afterwards."""
        try:
            if self._stands():
                return
            self._take(patience_s=0)
        except (OrbitError, OSError) as error:
            self._trouble.say(f"clients cannot find this broker by its name, and it tries again: {error}")
            return
        self._trouble.over()
        events.warn("what clients find this broker by was gone, and is there again")

    def leave(self) -> None:
        """Removes every name by which others could find the tree."""
        broker_file.remove(self._settings.layout)
        crash_point("presence_store_left")
        with suppress(OrbitError, OSError), folder_lock(self._folder(), PATIENCE_S):
            found = runtime.read_description(self._settings.name)
            if found is not None and self._is_ours(found):
                runtime.description_path(self._settings.name).unlink()
            crash_point("presence_undescribed")
            path = runtime.socket_path(self._settings.name)
            if _file(path) == self._bound:
                path.unlink()
            crash_point("presence_left")
        self.listener.close()

    # ---- the runtime folder

    def _take(self, patience_s: float) -> None:
        """Brings socket and descriptions into their proper state; makes what is missing."""
        folder = runtime.make_runtime_folder(self._settings.group)
        with folder_lock(folder, patience_s):
            self._refuse_other()
            path = runtime.socket_path(self._settings.name)
            if self._listener is None or _file(path) != self._bound:
                before, self._listener = self._listener, self._listen(path)
                if before is not None:
                    before.close()
            crash_point("presence_bound")
            description = self._description()
            runtime.write_description(description, self._settings.group)
            self._written = _file(runtime.description_path(self._settings.name))
        crash_point("presence_described")
        broker_file.write(self._settings.layout, description, self._lock)

    def _refuse_other(self) -> None:
        name = self._settings.name
        before = runtime.read_description(name)
        if before is None or self._is_ours(before):
            return
        elsewhere = lives_elsewhere(before, runtime.socket_path(name))
        if elsewhere or runtime.lives(before):
            holder = "a broker of another pid namespace" if elsewhere else f"process {before.pid}"
            raise SettingError(
                f"cannot name this broker {name!r}: {holder} has the name, for the store {before.store}",
                hint="choose another name, or stop that broker",
                name="name",
                value=name,
                pid=before.pid,
                store=before.store,
            )

    def _listen(self, path: Path) -> socket.socket:
        with suppress(FileNotFoundError):
            path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            # Everybody who may write to the socket can connect; the door checks who it is. Only this user can make a name in
            # the folder.
            if self._settings.group is not None:
                os.chown(path, -1, self._settings.group)
            path.chmod(0o600 if self._settings.group is None else 0o660)
            listener.listen(256)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self._bound = _file(path)
        return listener

    def _stands(self) -> bool:
        """Three looks that cost microseconds. Files that another broker has put in their place are left alone."""
        name = self._settings.name
        return (
            _file(runtime.socket_path(name)) == self._bound
            and _file(runtime.description_path(name)) == self._written
            and self._settings.layout.broker_json.exists()
        )

    # ---- what it says

    def _description(self) -> runtime.Description:
        ticks = runtime.start_ticks(os.getpid())
        assert ticks is not None
        return runtime.Description(
            self._settings.name,
            os.getpid(),
            ticks,
            str(self._settings.layout.root),
            self._generation,
            runtime.version(),
            runtime.boot_id(),
            str(self._folder()),
            runtime.pid_namespace(),
            runtime.memory_device(),
        )

    def _is_ours(self, description: runtime.Description) -> bool:
        return description.pid == os.getpid() and runtime.lives(description)

    def _folder(self) -> Path:
        return runtime.runtime_folder().absolute()


def _file(path: Path) -> FileId | None:
    with suppress(OSError):
        return FileId.of(path)
    return None
