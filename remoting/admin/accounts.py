"""The accounts of remote clients, as administrators see and change them: those of plain_acl.yml (docs/acl.md)."""

from __future__ import annotations

from pathlib import Path

from orbitmq.remoting.acl_file import LISTS, TEXTS, AclFile
from orbitmq.remoting.admin.queue_map import compact
from orbitmq.remoting.host import Host
from orbitmq.remoting.plain_acl import AclError
from orbitmq.remoting.request import SYSTEM_ERROR, Answer, Answers, Request
from orbitmq.remoting.routes import CLUSTER

PUT, DELETE, VERSION, PUT_ADDRESSES, LIST = 50, 51, 52, 53, 54
PUT_FAILED, DELETE_FAILED, PUT_ADDRESSES_FAILED = 209, 210, 211
FAILED = {PUT: PUT_FAILED, DELETE: DELETE_FAILED, PUT_ADDRESSES: PUT_ADDRESSES_FAILED}


class Accounts:
    """The file is read each time: nobody asks often, and others may write it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        kinds = {
            PUT: self._put,
            DELETE: self._delete,
            VERSION: self._version,
            PUT_ADDRESSES: self._put_addresses,
            LIST: self._list,
        }
        self.answers: Answers = dict.fromkeys(kinds, self._answer)
        self._kinds = kinds

    def _answer(self, request: Request) -> Answer:
        rules = self._host.settings.acl
        failed = FAILED.get(request.code, SYSTEM_ERROR)
        if not rules:
            return Answer(failed, "the broker uses no file of accounts; start it with --acl FILE")
        try:
            return self._kinds[request.code](AclFile(Path(rules)), request)
        except AclError as error:
            return Answer(failed, str(error))
        except OSError as error:
            return Answer(failed, f"{rules} cannot be read or written: {error.strerror or error}")

    def _put(self, file: AclFile, request: Request) -> Answer:
        names = ("accessKey", "admin", *TEXTS, *LISTS)
        file.put({name: request.fields.get(name) for name in names})
        return Answer(fields={})

    def _delete(self, file: AclFile, request: Request) -> Answer:
        access = request.fields.get("accessKey")
        if not file.delete(access):
            shown = access if access is not None else "null"
            return Answer(DELETE_FAILED, f"The accesskey[{shown}] corresponding to accessConfig has been deleted failed.", {})
        return Answer(fields={})

    def _put_addresses(self, file: AclFile, request: Request) -> Answer:
        told = request.fields.get("globalWhiteAddrs")
        if told is None:
            return Answer(PUT_ADDRESSES_FAILED, "The globalWhiteAddresses[null] has been updated failed.", {})
        file.put_addresses([each for each in told.split(",") if each])
        return Answer(fields={})

    def _version(self, file: AclFile, request: Request) -> Answer:
        version = compact(file.version)
        return Answer(
            fields={
                "version": version,
                "allAclFileVersion": compact({str(file.path): file.version}),
                "brokerName": self._host.broker,
                "brokerAddr": request.broker,
                "clusterName": CLUSTER,
            }
        )

    def _list(self, file: AclFile, request: Request) -> Answer:
        accounts = [dict(sorted({"admin": False, **each}.items())) for each in file.accounts]
        content = {"globalWhiteAddrs": file.addresses, "plainAccessConfigs": accounts}
        return Answer(fields={}, body=compact(content).encode())
