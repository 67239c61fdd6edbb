"""Goal: RocketMQ's clients find the broker at each address at which it is said to listen; as a gateway, where they expect its
name server, its broker and its VIP channel. A start that cannot have an address says which, who has it, and what to change.

Method: small trees at ports that are free, and clients made of the readable model of the protocol. Java's client uses the VIP
channel in tests/interop/test_remote.py. Also of store/settings/listen_place.py.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import SettingError
from orbitmq.store.settings.listen_address import ListenAddress, listen_address, listen_addresses
from orbitmq.store.settings.listen_place import GATEWAY, PLACES_MAX, VIP_BELOW, listen_places
from orbitmq.store.settings.tree_settings import tree_settings
from tests.actors.held_port import held_port
from tests.actors.remoting_client import CLUSTER, HEARTBEAT, ROUTE, Remote, records
from tests.cli.commands import SMALL, run
from tests.trees import actors, indexed, kill, small_broker
from tests.waiting import WATCHDOG_S

SUCCESS = 0
CONFIG, NAMES_CONFIG = 26, 319
FREE = {"gateway": True, "name_server_port": 0, "broker_port": 0}


def place(text: str) -> ListenAddress:
    found = listen_address(text)
    assert found is not None
    return found


def routed(said: Any) -> str:
    """The broker's address in a route, or in an answer about the cluster."""
    told = json.loads(said.body)
    brokers = told["brokerDatas"] if "brokerDatas" in told else [*told["brokerAddrTable"].values()]
    return str(brokers[0]["brokerAddrs"]["0"])


def properties(said: Any) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in said.body.decode().splitlines())


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[tuple[int, int]]:
    """The pid of a process that listens, and the port."""
    program = (
        "import socket,sys; s = socket.create_server((sys.argv[1], 0), family=int(sys.argv[2]));"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    family = int(socket.AF_INET6 if ":" in host else socket.AF_INET)
    command = [sys.executable, "-c", program, host, str(family)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdin and select.select([other.stdout], [], [], WATCHDOG_S)[0]
        yield other.pid, int(other.stdout.readline())
        other.stdin.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, **FREE) as broker:
        broker.create_topic("t", 2)
        yield broker


def test_every_address_answers_everything(broker: orbitmq.Broker) -> None:
    """What a name server answers and what a broker answers. Routes and message ids name the broker's address."""
    names, at, vip = status = broker.status().addresses
    assert broker.status().listens == names and len({*status}) == 3
    assert place(vip).port == place(at).port - VIP_BELOW
    for number, address in enumerate(status):
        with Remote(address) as remote:
            assert remote.ask(HEARTBEAT, b"{}").code == SUCCESS
            receipt = remote.send("t", b"%d" % number)
            assert receipt.code == SUCCESS and int(receipt.fields["msgId"][8:16], 16) == place(at).port
            assert routed(remote.ask(ROUTE, topic="t")) == routed(remote.ask(CLUSTER)) == at
            assert properties(remote.ask(CONFIG))["listenPort"] == str(place(at).port)
            assert properties(remote.ask(NAMES_CONFIG))["listenPort"] == str(place(address).port)
            indexed(broker)
            assert len(records(remote.pull("t", 0, 0).body)) == number + 1


def test_the_next_gateway_listens_everywhere(broker: orbitmq.Broker) -> None:
    kill(broker, "gateway")
    for address in broker.status().addresses:
        with Remote(address) as remote:
            assert remote.ask(CLUSTER).code == SUCCESS


def test_it_is_remembered_until_it_is_taken_back(tmp_path: Path) -> None:
    with small_broker(tmp_path, **FREE):
        pass
    with small_broker(tmp_path) as broker, Remote(broker.status().listens) as remote:
        assert len(broker.status().addresses) == 3 and remote.ask(CLUSTER).code == SUCCESS
    assert run("config", "set", "gateway=false", "--store", str(tmp_path)).returncode == 0
    with small_broker(tmp_path) as broker:
        assert "gateway" not in actors(broker) and broker.status().addresses == ()


def test_several_addresses(tmp_path: Path) -> None:
    """Each is name server and broker at once, and routes name the one that the client has reached."""
    with small_broker(tmp_path, listen="127.0.0.1:0; [::1]:0, 127.0.0.2:0") as broker:
        broker.create_topic("t", 1)
        addresses = broker.status().addresses
        assert [place(each).host for each in addresses] == ["127.0.0.1", "::1", "127.0.0.2"]
        assert broker.status().listens == ";".join(addresses)
        for each in addresses:
            with Remote(each, host="::1" if "::1" in each else "127.0.0.1") as remote:
                assert routed(remote.ask(ROUTE, topic="t")) == each
                receipt = remote.send("t", b"x")
                assert int(receipt.fields["msgId"][8:16], 16) == place(addresses[0]).port


def test_beside_other_addresses(tmp_path: Path) -> None:
    """Who reaches an address of `listen`, perhaps from another network, is led back there."""
    with small_broker(tmp_path, **FREE, listen="127.0.0.2:0") as broker:
        broker.create_topic("t", 1)
        names, at, vip, other = broker.status().addresses
        assert broker.status().listens == names
        for reached, led in ((names, at), (at, at), (vip, at), (other, other)):
            with Remote(reached) as remote:
                assert routed(remote.ask(ROUTE, topic="t")) == led


def test_ipv6(tmp_path: Path) -> None:
    with small_broker(tmp_path, **FREE, gateway_host="::1") as broker:
        broker.create_topic("t", 1)
        addresses = broker.status().addresses
        assert {place(each).host for each in addresses} == {"::1"}
        for each in addresses:
            with Remote(each, host="::1") as remote:
                assert remote.send("t", b"x").code == SUCCESS and routed(remote.ask(ROUTE, topic="t")) == addresses[1]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_addresses_of_the_machine(tmp_path: Path, host: str) -> None:
    """A client is led to the broker's port of the host that it has reached, as it has named it: without the form that IPv4 has
    at an address for both."""
    with small_broker(tmp_path, **FREE, gateway_host=host) as broker:
        broker.create_topic("t", 1)
        ports = [place(each).port for each in broker.status().addresses]
        hosts = ["127.0.0.1", "127.0.0.2", *(["::1"] if host == "[::]" else [])]
        for each in hosts:
            for port in ports:
                with Remote(str(ListenAddress(each, port)), host="::1" if each == "::1" else "127.0.0.1") as remote:
                    assert routed(remote.ask(ROUTE, topic="t")) == str(ListenAddress(each, ports[1]))


def test_the_usual_ports(tmp_path: Path) -> None:
    """RocketMQ's; and the VIP channel follows the broker."""

    def ports(**options: Any) -> dict[str, int]:
        return {each.setting: each.address.port for each in listen_places(tree_settings(str(tmp_path), options))}

    assert ports() == {}
    assert ports(gateway=True) == {"name_server_port": 9876, "broker_port": 10911, "vip_port": 10909}
    assert ports(gateway=True, broker_port=20911) == {"name_server_port": 9876, "broker_port": 20911, "vip_port": 20909}
    assert ports(gateway=True, vip_port=1)["vip_port"] == 1
    twice = tree_settings(str(tmp_path), {"gateway": True, "listen": "127.0.0.1:9876;1;1;127.0.0.1:10909"})
    assert [each.address.port for each in listen_places(twice)] == [9876, 10911, 10909, 1], "each address once"
    wild = listen_places(replace(twice, gateway_host="[::]", listen=""))
    assert {str(each.address) for each in wild} == {"[::]:9876", "[::]:10911", "[::]:10909"}


def test_lists_of_addresses() -> None:
    assert listen_addresses("") == listen_addresses(" ; ,") == []
    found = [*map(str, listen_addresses("1 ;[::1]:2,a:3;1;0;0"))]
    assert found == ["127.0.0.1:1", "[::1]:2", "a:3", "127.0.0.1:0", "127.0.0.1:0"]
    with pytest.raises(ValueError, match="must end with a port"):
        listen_addresses("a:1;b")


@pytest.mark.parametrize("setting", GATEWAY)
def test_a_port_that_is_taken(tmp_path: Path, setting: str) -> None:
    """The error names the port, who has it, and the setting to change; nothing is left, and with another port it starts."""
    with listening() as (pid, port):
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        with pytest.raises(SettingError) as caught:
            small_broker(tmp_path, **{**FREE, setting: port}).__enter__()
        error = caught.value
        assert error.message == (
            f"cannot listen at 127.0.0.1:{port}, where {setting} wants it: Address already in use, by process {pid} ({comm})"
        )
        assert (error.name, error.value) == (setting, port) and f"another port with {setting}" in (error.hint or "")
        told = run("up", "--store", str(tmp_path), "--name", "places", "--gateway", *sets({**FREE, setting: port}))
        assert told.returncode == 2, told
        said = " ".join(told.stderr.split())
        assert f"{setting} wants it" in said and f"process {pid} ({comm})" in said and f"--set {setting}=..." in said, told
        with small_broker(tmp_path, **FREE) as broker:
            assert len(broker.status().addresses) == 3


def sets(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() if name != "gateway" for word in ("--set", f"{name}={value}")]


def test_a_port_that_is_its_own(tmp_path: Path) -> None:
    with held_port() as port, pytest.raises(SettingError, match="by this broker itself") as caught:
        small_broker(tmp_path, **{**FREE, "name_server_port": port}, listen=f"0.0.0.0:{port}").__enter__()
    assert caught.value.name == "listen"


@pytest.mark.parametrize("host", ["::1", "127.0.0.2"])
def test_an_address_that_is_taken(tmp_path: Path, host: str) -> None:
    with listening(host) as (pid, port):
        address = ListenAddress(host, port)
        with pytest.raises(SettingError, match=rf"the broker cannot listen there: .*, by process {pid} ") as caught:
            small_broker(tmp_path, listen=f"127.0.0.1:0;{address}").__enter__()
        assert caught.value.value == str(address)


@pytest.mark.parametrize(
    ("settings", "name", "why"),
    [
        ({"gateway": "perhaps"}, "gateway", "must be true or false"),
        ({"gateway_host": "127.0.0.1:9876"}, "gateway_host", "without a port"),
        ({"gateway_host": ""}, "gateway_host", "an address or a name"),
        ({"gateway_host": "nowhere.invalid", "gateway": True}, "name_server_port", "cannot listen at nowhere.invalid:9876"),
        ({"broker_port": 65536}, "broker_port", "from 0 to 65,535"),
        ({"broker_port": -1}, "broker_port", "from 0 to 65,535"),
        ({"broker_port": 2}, "broker_port", "no port 2 below it"),
        ({"gateway": True, "broker_port": 9876}, "broker_port", "name_server_port is the same"),
        ({"gateway": True, "vip_port": 10911}, "vip_port", "broker_port is the same"),
        ({"listen": ";".join(map(str, range(1, PLACES_MAX + 2)))}, "listen", f"{PLACES_MAX} such addresses at most"),
        ({"namesrv": "127.0.0.1:1"}, "namesrv", "no client could reach"),
    ],
)
def test_what_cannot_start(tmp_path: Path, settings: dict[str, Any], name: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as caught:
        small_broker(tmp_path, **settings).__enter__()
    assert caught.value.name == name


def test_what_people_see(tmp_path: Path) -> None:
    """`up` names the address for namesrvAddr, and the others."""
    store, name = str(tmp_path / "store"), f"places-{os.getpid()}"
    up = run("up", "--detach", "--store", store, "--name", name, *SMALL, "--gateway", *sets(FREE))
    try:
        assert up.returncode == 0, up
        with orbitmq.connect(name) as client:
            names, *others = client.status().addresses
            settings = {each.name: each.value for each in client.settings()}
        said = " ".join(up.stdout.split())
        assert f"namesrvAddr {names} and at {', '.join(others)}" in said, up
        assert settings["gateway"] is True and settings["listen"] == ""
    finally:
        assert run("down", "--name", name).returncode == 0
    again = run("up", "--detach", "--store", store, "--name", name, "--no-gateway", "--listen", "127.0.0.1:0", "--listen", "0")
    try:
        assert again.returncode == 0, again
        with orbitmq.connect(name) as client:
            assert len(client.status().addresses) == 2
    finally:
        assert run("down", "--name", name).returncode == 0
