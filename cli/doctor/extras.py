"""Packages that extras need, and Java, which Spark needs. What is not installed is not missed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import metadata

from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.errors import SettingError
from orbitmq.spark.session import require_java

PACKAGES = ("pyarrow", "pyspark", "pandas", "textual", "prometheus-client", "starlette", "pyyaml", "opentelemetry-api")
_REQUIRED = re.compile(r"(?P<name>[\w.-]+)(?P<bounds>[^;]*)")
_BOUND = re.compile(r"(>=|<)\s*([\d.]+)")


def look() -> list[Finding]:
    findings = of_packages(metadata.requires("orbitmq") or (), installed)
    if installed("pyspark") is not None:
        findings.append(_java())
    return findings


def installed(package: str) -> str | None:
    """Its version."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def of_packages(required: Sequence[str], version_of: Callable[[str], str | None]) -> list[Finding]:
    """required: as a package's metadata has it, such as 'pyarrow>=18; extra == "arrow"'."""
    findings: dict[str, Finding] = {}
    for line in required:
        found = _REQUIRED.match(line)
        if found is None or found["name"].lower() not in PACKAGES or found["name"] in findings:
            continue
        package, bounds = found["name"], found["bounds"].strip(" ()")
        version = version_of(package)
        if version is None:
            continue
        if fits(version, bounds):
            findings[package] = Finding(package, version)
        else:
            findings[package] = Finding(package, version, Level.ADVICE, f"pip install '{package}{bounds}'")
    return list(findings.values())


def fits(version: str, bounds: str) -> bool:
    """bounds: such as ">=2.2,<3"."""
    own = _numbers(version)
    return all((own >= _numbers(limit)) == (sign == ">=") for sign, limit in _BOUND.findall(bounds))


def _numbers(version: str) -> tuple[int, ...]:
    """ "4.0.1rc1" -> (4, 0, 1); zeros at the end do not count."""
    numbers = [int(each) for each in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _java() -> Finding:
    try:
        require_java()
    except SettingError as error:
        return Finding.of_error("java", error, Level.ADVICE)
    return Finding("java", "new enough for Spark")
