"""The options that say how servers are reached: servers, timeout, accessKey, secretKey, tls, tlsTrust, tlsVerify and brokers.
Source and sink have the same."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.errors import SettingError
from orbitmq.store.settings.listen_address import ListenAddress, server_addresses

OPTIONS = ("servers", "timeout", "accessKey", "secretKey", "tls", "tlsTrust", "tlsVerify", "brokers")
Refuse = Callable[..., SettingError]


@dataclass(frozen=True, slots=True)
class Servers:
    """text: addresses of name servers, or of OrbitMQ's gateway, between semicolons. timeout: seconds for which they may be
    away.

    access, secret: with which requests are signed; None: they are not. tls: connections are encrypted; trust: file of
        certificates that are believed, None: the system's; verify: they are looked at.
    brokers: names, in the order by which partitions are numbered; none: by name. lasting: numbers must be the same in later
        runs, so that several brokers need an order.
    """

    text: str
    timeout: float
    access: str | None = None
    secret: str | None = field(default=None, repr=False)
    tls: bool = False
    trust: str | None = None
    verify: bool = True
    brokers: tuple[str, ...] = ()
    lasting: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def addresses(self) -> list[ListenAddress]:
        return server_addresses(self.text)

    def context(self) -> ssl.SSLContext | None:
        """For one connection or more; None: in clear. Raises: OSError, ssl.SSLError: the file of trust cannot be used."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.trust)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def parse(values: Mapping[str, str], timeout: float, refused: Refuse, *, lasting: bool = False) -> Servers | None:
    """None: the option servers is not given. timeout: seconds, of the option. refused: makes the error for an option.

    Raises: SettingError.
    """
    if "servers" not in values:
        for option in OPTIONS[2:]:
            if option in values:
                raise refused(option, values[option], "it says how servers are reached, and they are not given")
        return None
    try:
        addresses = server_addresses(values["servers"])
    except ValueError as error:
        ways = "give addresses such as host:9876, between semicolons"
        raise refused("servers", values["servers"], str(error), ways) from None
    if not addresses:
        raise refused("servers", values["servers"], "it names nobody", "give an address such as host:9876")
    access, secret = _keys(values, refused)
    tls, trust, verify = _tls(values, refused)
    made = Servers(values["servers"], timeout, access, secret, tls, trust, verify, _brokers(values, refused), lasting)
    try:
        made.context()
    except OSError as error:  # ssl.SSLError is one
        raise refused("tlsTrust", trust, f"its certificates cannot be used: {error}") from None
    return made


def _keys(values: Mapping[str, str], refused: Refuse) -> tuple[str | None, str | None]:
    for option, other in (("accessKey", "secretKey"), ("secretKey", "accessKey")):
        if option in values and not values[option]:
            raise refused(option, values[option], "it is empty")
        if option in values and other not in values:
            raise refused(option, values[option], f"it signs requests only together with {other}, and that is not given")
    return values.get("accessKey"), values.get("secretKey")


def _tls(values: Mapping[str, str], refused: Refuse) -> tuple[bool, str | None, bool]:
    tls, verify, trust = _switch(values, "tls", refused), _switch(values, "tlsVerify", refused, True), values.get("tlsTrust")
    for option in ("tlsTrust", "tlsVerify"):
        if option in values and not tls:
            raise refused(option, values[option], "without tls = true nothing is encrypted")
    if trust is not None and not verify:
        raise refused("tlsTrust", trust, "tlsVerify = false lets any certificate pass", "leave one of them out")
    if trust is not None and not Path(trust).is_file():
        raise refused("tlsTrust", trust, "there is no such file", "give a file of certificates, in PEM")
    return tls, trust, verify


def _switch(values: Mapping[str, str], option: str, refused: Refuse, default: bool = False) -> bool:
    text = values.get(option, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise refused(option, values[option], "true or false is wanted")
    return text == "true"


def _brokers(values: Mapping[str, str], refused: Refuse) -> tuple[str, ...]:
    if "brokers" not in values:
        return ()
    names = tuple(name.strip() for name in values["brokers"].split(",") if name.strip())
    if not names or len(set(names)) < len(names):
        why = "it names nobody" if not names else "it names one of them twice"
        raise refused("brokers", values["brokers"], why, "give the names of the cluster's brokers, between commas")
    return names
