"""Goal: the files in ops/docker, ops/kubernetes and ops/cron do what docs/containers.md and docs/cron.md say. Method: parsers
and schemas of others judge them; the commands that they name run in namespaces like those of a container, with 64 MiB of
/dev/shm, and clients beside them that share as much as the files say, and less."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.contained import Contained

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "ops"
KUBERNETES = ("1.29", "1.37")  # the first with sidecars, and a new one
pytestmark = pytest.mark.xdist_group("containers")


# What judges the files is imported by the tests, because each worker reads this module to collect them, and one has them.
def instructions(name: str) -> list[str]:
    from dockerfile_parse import DockerfileParser

    parser = DockerfileParser(str(OPS / "docker" / "Dockerfile"))
    return [each["value"] for each in parser.structure if each["instruction"] == name]


def image_command() -> list[str]:
    return [*json.loads(instructions("ENTRYPOINT")[0]), *json.loads(instructions("CMD")[0])]


def health_command() -> list[str]:
    found: list[str] = json.loads(instructions("HEALTHCHECK")[0].partition(" CMD ")[2])
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((OPS / "docker" / "compose.yaml").read_text())
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((OPS / "kubernetes" / "sidecar.yaml").read_text())["spec"]
    return found


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contained]:
    with Contained(tmp_path_factory.mktemp("store"), image_command()) as made:
        made.ready(*health_command())
        yield made


# ---- in namespaces


def test_a_client_in_another_container(container: Contained) -> None:
    """It shares processes, memory and folders: it sends, and reads, and the probes of all files say that all is well."""
    for words in (["topic", "create", "orders"], ["send", "orders", "hello"]):
        done = container.beside("orbitmq", *words)
        assert done.returncode == 0, done.stderr
    read = container.beside("orbitmq", "tail", "orders", "--from", "earliest", "--no-follow")
    assert "hello" in read.stdout, read.stderr
    (broker,) = pod()["template"]["spec"]["initContainers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container.beside(*broker[probe]["exec"]["command"]).returncode == 0
    assert broker["args"] == image_command()[1:]


def test_a_client_that_shares_no_processes(container: Contained) -> None:
    """It is told that it shares none, and how it would: by name and by store."""
    assert container.beside("orbitmq", "topic", "list").returncode == 0
    for options in ([], ["--store", "/var/lib/orbitmq/store"]):
        done = container.beside("orbitmq", "topic", "list", *options, pid=False)
        assert done.returncode == 1 and "it runs in another pid namespace than this process" in done.stderr, done.stderr
        assert "--pid=container:BROKER" in done.stderr and "shareProcessNamespace: true" in done.stderr


def test_a_broker_that_shares_no_processes(container: Contained) -> None:
    """The name of a broker is not taken from it by one that cannot see its process."""
    done = container.beside("orbitmq", "up", "--store", "/run/other", pid=False)
    assert done.returncode != 0 and "a broker of another pid namespace has the name" in done.stderr, done.stderr
    assert container.beside("orbitmq", "topic", "list").returncode == 0


def test_a_client_that_shares_no_memory(container: Contained) -> None:
    """The same for /dev/shm."""
    done = container.beside("orbitmq", "topic", "list", shm=False)
    assert done.returncode == 1 and "its shared memory is in another /dev/shm" in done.stderr, done.stderr
    assert "--ipc=container:BROKER" in done.stderr and "emptyDir" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_a_client_of_another_user(container: Contained) -> None:
    """It is told whose the broker is, and which setting would let it in."""
    done = container.beside("setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "orbitmq", "topic", "list")
    assert done.returncode == 1 and "uid 4711 may not read /run/orbitmq/default.json" in done.stderr, done.stderr
    assert "run this program as uid 0" in done.stderr and "--set group=" in done.stderr


def test_a_stop(tmp_path: Path) -> None:
    """SIGTERM to the first process stops all of it in order, and what was stored is there for the next one."""
    with Contained(tmp_path / "store", image_command()) as container:
        container.ready(*health_command())
        assert container.beside("orbitmq", "topic", "create", "orders").returncode == 0
        assert container.beside("orbitmq", "send", "orders", "kept").returncode == 0
        assert container.stop() == 0
    with Contained(tmp_path / "store", image_command()) as container:
        container.ready(*health_command())
        assert "kept" in container.beside("orbitmq", "tail", "orders", "--from", "earliest", "--no-follow").stdout


def test_too_little_shared_memory(tmp_path: Path) -> None:
    """No broker starts, and it says where how much is missing."""
    with Contained(tmp_path / "store", image_command(), shm="8m") as container:
        said = container.errors()
        assert container.process.returncode != 0
        assert "/dev/shm" in said and "MiB" in said, said


def cron() -> tuple[dict[str, str], list[str]]:
    """Settings, and commands as cron gives them to the shell."""
    lines = [line for line in (OPS / "cron" / "orbitmq").read_text().splitlines() if line and line[0] != "#"]
    settings = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    jobs = [line.split(None, 6) for line in lines if not re.match(r"[A-Z_]+=", line)]
    for job in jobs:
        assert all(re.fullmatch(r"[*\d/,-]+", field) for field in job[:5]) and job[5] == "orbitmq"
        assert not re.search(r"(?<!\\)%", job[6]), "to cron it is a new line"
    return settings, [job[6].replace("\\%", "%") for job in jobs]


def test_cron(container: Contained) -> None:
    """Each command runs in cron's environment. A sender that is started twice in a minute stores its message once, and the
    hourly export adds what is new."""
    settings, (send, export) = cron()
    alone = ["env", "-i", *(f"{name}={value}" for name, value in settings.items()), settings["SHELL"], "-c"]
    assert container.beside("orbitmq", "topic", "create", "disk").returncode == 0
    moment = "$(date -u +%Y-%m-%dT%H:%M)"
    assert moment in send
    for minute in ("1", "1", "2"):
        done = container.beside(*alone, send.replace(moment, minute))
        assert done.returncode == 0, done.stderr
    first = container.beside(*alone, send)
    assert first.returncode == 0, first.stderr
    stored = container.beside("orbitmq", "tail", "disk", "--from", "earliest", "--no-follow").stdout
    assert stored.count("%") == 3, stored
    for _ in range(2):
        done = container.beside(*alone, export)
        assert done.returncode == 0, done.stderr
    import pyarrow.dataset

    assert pyarrow.dataset.dataset(container.folder / "parquet", exclude_invalid_files=True).count_rows() == 3


# ---- the files


def test_the_image() -> None:
    """What it copies is there and is not left out of the build; it runs as a user, whose folders are the volumes."""
    assert len(instructions("FROM")) == 2 and instructions("USER") == ["orbitmq"]
    assert instructions("COPY") == [". /src", "--from=build /wheels /wheels"]
    left_out = (OPS / "docker" / "Dockerfile.dockerignore").read_text().split()
    needed = {"setup.py", "pyproject.toml", "orbitmq", "native", *(path.name for path in ROOT.glob("*/__init__.py"))}
    assert not needed - {"tests"} & set(left_out)
    extras = {word for line in instructions("RUN") for word in re.findall(r"\[([a-z,]+)\]", line)}
    assert extras == {"cli,metrics"}
    volumes = json.loads(instructions("VOLUME")[0])
    assert instructions("ENV") == [f"ORBITMQ_RUNTIME_DIR={volumes[1]}"] and image_command()[-1].startswith(volumes[0])
    (user,) = (line for line in instructions("RUN") if "useradd" in line)
    assert set(volumes) <= set(shlex.split(user))


def test_compose() -> None:
    """It has the form that the specification asks for, and a client shares processes, memory and both folders."""
    from compose_pydantic import ComposeSpecification

    ComposeSpecification.model_validate(compose())
    services = compose()["services"]
    broker, client = services["broker"], services["metrics"]
    assert (ROOT / "ops" / "docker" / broker["build"]["context"]).resolve() == ROOT
    assert (ROOT / broker["build"]["dockerfile"]).is_file()
    assert broker["ipc"] == "shareable" and {client["ipc"], client["pid"]} == {"service:broker"}
    places = [[volume.split(":")[:2] for volume in service["volumes"]] for service in (broker, client)]
    assert places[0] == places[1] and {name for name, _ in places[0]} == set(compose()["volumes"])
    assert [place for _, place in places[0]] == json.loads(instructions("VOLUME")[0])


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes(version: str) -> None:
    """The cluster's own schema takes it, and the two containers share what the documents say."""
    import kubernetes_validate

    whole = yaml.safe_load((OPS / "kubernetes" / "sidecar.yaml").read_text())
    kubernetes_validate.validate(whole, version, strict=True)
    spec = pod()["template"]["spec"]
    (broker,), (program,) = spec["initContainers"], spec["containers"]
    assert spec["shareProcessNamespace"] and broker["restartPolicy"] == "Always"
    assert broker["volumeMounts"] == program["volumeMounts"] and broker["env"] == program["env"]
    mounts = {each["name"]: each["mountPath"] for each in broker["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory" and mounts["shm"] == "/dev/shm"
    assert [mounts["store"], mounts["runtime"]] == json.loads(instructions("VOLUME")[0])
    (claim,) = pod()["volumeClaimTemplates"]
    assert mounts.keys() == {*volumes, claim["metadata"]["name"]}
    (user,) = (line for line in instructions("RUN") if "useradd" in line)
    assert f"--uid {spec['securityContext']['runAsUser']} " in user


def test_a_wrong_manifest_is_seen() -> None:
    """Goal: the schemas can refuse."""
    import kubernetes_validate
    from compose_pydantic import ComposeSpecification

    whole = yaml.safe_load((OPS / "kubernetes" / "sidecar.yaml").read_text())
    whole["spec"]["template"]["spec"]["initContainers"][0]["livenessProbes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(whole, KUBERNETES[0], strict=True)
    wrong = compose()
    wrong["services"]["broker"]["shm_sise"] = "1g"
    with pytest.raises(ValueError, match="shm_sise"):
        ComposeSpecification.model_validate(wrong)
