"""Goal: RocketMQ's own Java client works over TLS (tls.enable) as it does without. Method: its producers and consumers, against
brokers where both may be spoken, and where TLS must."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.remoting_kinds import CERTIFICATES
from tests.interop.judge import Judge, JudgeError
from tests.interop.ours import SMALL_FILES, broker_on, visiting

# What Java's client says of a connection that was closed under its first question. It says timeout, without waiting for one, if
# the close overtakes the end of its write; that the gateway closes is seen in tests/actors/test_gateway_tls.py.
CUT_OFF = r"^sendSigned: .*Remoting(SendRequest|Connect|Timeout)Exception: "
KEY = {"key": "account1", "secret": "of-the-account"}
RULES = """\
accounts:
- accessKey: account1
  secretKey: of-the-account
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_a_java_client(judge: Judge, tmp_path: Path, mode: str) -> None:
    """Signed by an account, too. A message of 100,000 bytes and what is given back come whole."""
    (tmp_path / "plain_acl.yml").write_text(RULES)
    files = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key")}
    settings = {"name": "judged", "listen": "127.0.0.1:0", "acl": str(tmp_path / "plain_acl.yml"), "tls": mode, **files}
    with broker_on(tmp_path / "store", SMALL_FILES, **settings) as broker:
        broker.create_topic("orders", queues=2)
        with visiting(judge, broker):
            bodies = ["one", "two", "x" * 100_000]
            for body in bodies:
                assert judge.ask("sendSigned", topic="orders", body=body, tls=True, **KEY) == "SEND_OK"
            came = judge.ask("consumeSigned", topic="orders", group="readers", count=6, tls=True, **KEY)
            assert sorted(came) == sorted(f"{times} {body}" for times in (0, 1) for body in bodies)
            if mode == "permissive":
                assert judge.ask("sendSigned", topic="orders", body="plain", **KEY) == "SEND_OK"
            else:
                with pytest.raises(JudgeError, match=CUT_OFF):
                    judge.ask("sendSigned", topic="orders", body="plain", **KEY)


def test_a_java_client_s_certificate(judge: Judge, tmp_path: Path) -> None:
    """It shows one if it is told to, and is told not to be in its test mode, in which it heeds no such setting."""
    files = {"tls_cert": str(CERTIFICATES / "first.pem"), "tls_key": str(CERTIFICATES / "first.key"), "tls": "enforcing"}
    trust = {"tls_client_auth": "require", "tls_trust": str(CERTIFICATES / "second.pem")}
    settings = {"name": "judged", "listen": "127.0.0.1:0", **files, **trust}
    with broker_on(tmp_path / "store", SMALL_FILES, **settings) as broker:
        broker.create_topic("orders", queues=2)
        with visiting(judge, broker):
            second, first = (str(CERTIFICATES / name) for name in ("second", "first"))
            assert judge.ask("sendSigned", topic="orders", body="one", tls=True, certificate=second) == "SEND_OK"
            for more in ({"certificate": first}, {}, {"certificate": second, "testMode": True}):
                with pytest.raises(JudgeError, match=CUT_OFF):
                    judge.ask("sendSigned", topic="orders", body="no", tls=True, **more)
