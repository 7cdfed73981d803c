"""Lookups through a proxy."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grpc

from . import values
from .answer import Answer, Error
from .retry import FIRST_PAUSE, Retries
from .v1 import qosproxy_pb2 as pb
from .v1 import qosproxy_pb2_grpc

PATIENCE = 10.0
"""How many seconds a call waits that has no timeout at all."""

MIN_KEEPALIVE = 10.0
"""The shortest interval of pings, in seconds, that a proxy tolerates."""

_SERVICE_CONFIG = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}


@dataclasses.dataclass(frozen=True)
class Tls:
    """TLS by PEM files, which are read once. Without ca_file the roots of gRPC are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    """What the certificate of the proxy must be for, where that is not the name of the target."""

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials of a channel."""
        read = [_read(f) if f else None for f in (self.ca_file, self.key_file, self.cert_file)]
        return grpc.ssl_channel_credentials(*read)


def _read(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read()


@dataclasses.dataclass(frozen=True, init=False)
class Key:
    """The value of each partition key column, in key order, and of as many clustering columns as are
    named, in clustering order."""

    components: tuple[Any, ...]

    def __init__(self, *components: Any):
        object.__setattr__(self, "components", components)


_OPERATORS = {
    "=": pb.OPERATOR_EQUAL,
    "in": pb.OPERATOR_IN,
    ">": pb.OPERATOR_GREATER,
    ">=": pb.OPERATOR_GREATER_OR_EQUAL,
    "<": pb.OPERATOR_LESS,
    "<=": pb.OPERATOR_LESS_OR_EQUAL,
}


@dataclasses.dataclass(frozen=True)
class Condition:
    """Restricts a clustering column behind those that the keys name: Condition("day", ">=", day)."""

    column: str
    operator: str
    """One of = in > >= < <=."""
    value: Any
    """With in an iterable of at least one value."""

    def proto(self) -> pb.Condition:
        """The condition as the proxy takes it."""
        if self.operator not in _OPERATORS:
            raise ValueError(f"the operator of a condition is {self.operator!r}; it is one of {' '.join(_OPERATORS)}")
        given = list(self.value) if self.operator == "in" else [self.value]
        return pb.Condition(
            column=self.column, operator=_OPERATORS[self.operator], values=[values.encode(v) for v in given]
        )


def _key(key: Any) -> pb.Key:
    components = key.components if isinstance(key, Key) else (key,)
    return pb.Key(components=[values.encode(c) for c in components])


class Client:
    """Makes lookups. It is safe for use by many threads; one is enough for a process."""

    def __init__(
        self,
        target: str,
        *,
        tls: Tls | grpc.ChannelCredentials | None = None,
        token: str | Callable[[], str] | None = None,
        plaintext_token: bool = False,
        socket_name: str = "",
        timeout: float | None = None,
        retries: int = 2,
        retry_shed: bool = False,
        keepalive: float = 20.0,
        max_answer_bytes: int = 64 << 20,
        options: Iterable[tuple[str, Any]] = (),
    ):
        """A client of the proxies at a target in gRPC's notation, such as
        dns:///qosproxy.example.org:50051 or unix:///run/qosproxy/grpc.sock. It connects in the
        background and when first used.

        tls: encrypts the connection; None does not.
        token: the bearer token of the client, or what returns it for each call anew. It needs TLS or
            a unix socket, or plaintext_token where something else encrypts, such as a service mesh.
        socket_name: says over a unix socket who the client is.
        timeout: the seconds that a lookup takes at most which names no timeout itself. None sends no
            deadline, so that the timeout of the table applies, and gives up after 10 s.
        retries: how often a call is made again at most that failed as a whole; 0 is never.
        retry_shed: also repeats lookups that were shed, after the time that the proxy asks for. It
            adds load where there is too much already.
        keepalive: the seconds between pings of an idle connection, no less than 10; 0 pings never.
        max_answer_bytes: the largest answer that is taken.
        options: further options of the channel; they come last and so prevail.
        """
        self._target, self._timeout, self._token, self._socket_name = target, timeout, token, socket_name
        socket = target.startswith(("unix:", "unix-abstract:"))
        if token is not None and tls is None and not plaintext_token and not socket:
            raise ValueError(f"a token would go unencrypted to {target}; set tls, or plaintext_token where the network encrypts")
        if 0 < keepalive < MIN_KEEPALIVE:
            raise ValueError(f"a keepalive of {keepalive} s is below the {MIN_KEEPALIVE} s that a proxy tolerates")
        self._retries = Retries(retries, retry_shed)
        settings = _channel_options(tls, keepalive, max_answer_bytes) + list(options)
        if tls is None:
            self.channel = grpc.insecure_channel(target, settings)
        else:
            self.channel = grpc.secure_channel(target, tls.credentials() if isinstance(tls, Tls) else tls, settings)
        self.stub = qosproxy_pb2_grpc.QosProxyStub(self.channel)
        """The generated client, for calls that this class has no method for. It neither retries nor
        brings the token: pass metadata=client.metadata()."""

    def close(self) -> None:
        """Ends the connections; calls in flight fail."""
        self.channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def metadata(self) -> list[tuple[str, str]]:
        """What tells the proxy who the client is."""
        out = []
        if self._socket_name:
            out.append(("qosproxy-client", self._socket_name))
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            out.append(("authorization", "Bearer " + token))
        return out

    def batch_get(
        self,
        table: str,
        keys: Iterable[Any],
        columns: Iterable[str] = (),
        *,
        limit: int = 0,
        timeout: float | None = None,
        where: Iterable[Condition] = (),
        reverse: bool = False,
        consistency: str = "",
        soft_deadline: float | None = None,
        min_keys: int = 0,
        optional: Iterable[int] = (),
        paging: bool = False,
        page_tokens: Iterable[str] = (),
    ) -> Answer:
        """Reads the rows of many keys of a table. Raises Error when none was answered; otherwise
        the Answer tells what became of each.

        table: keyspace.table as Cassandra stores the names: unquoted, case preserved.
        keys: a Key each, or the value of the only partition key column.
        columns: in this order; none means all that may be read. writetime(name) and ttl(name) are
            columns, too.
        limit: the most rows of one key; 0 means all, up to the limit of the table, beyond which the
            key is TOO_LARGE.
        timeout: the seconds that the lookup takes at most. Shortly before, the proxy answers with
            the keys it has. None is the timeout of the client.
        where, reverse: which rows of each key, and whether from the last to the first.
        consistency: in CQL's words, among those of the table; empty is that of the table.
        soft_deadline: the seconds after which the lookup ends if min_keys are answered (0 is 1).
        optional: positions of keys that are the first to be shed under load.
        paging: returns the rows in pages of limit; page_tokens say where each key goes on.
        """
        keyspace, dot, name = table.partition(".")
        if not dot:
            raise ValueError(f"the table is {table!r}; write keyspace.table")
        keys = list(keys)
        request = pb.BatchGetRequest(
            keyspace=keyspace,
            table=name,
            keys=[_key(k) for k in keys],
            columns=columns,
            limit_per_key=limit,
            where=[c.proto() for c in where],
            order=pb.ORDER_REVERSE if reverse else pb.ORDER_UNSPECIFIED,
            consistency=consistency,
            min_keys=min_keys,
            optional_keys=optional,
            paging=paging,
            page_tokens=page_tokens,
        )
        if soft_deadline is not None:
            request.soft_deadline.FromNanoseconds(round(soft_deadline * 1e9))
        return self._get(request, keys, timeout)

    def retry_unprocessed(self, answer: Answer, *, timeout: float | None = None, rounds: int = 1) -> Answer:
        """Asks the unprocessed keys of an answer again, and those alone, and returns the answer with
        what has come of them.

        It pauses before each of the rounds, and takes timeout seconds at most in all; None is the
        timeout of the client. While the proxy is in trouble the retry budget ends it early. It
        never returns less than the answer had, and raises Error only for what is no failure of
        load or time, such as PERMISSION_DENIED.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = self._retries.clock() + (PATIENCE if timeout is None else timeout)
        mean, asked = FIRST_PAUSE, 0.0
        for _ in range(rounds):
            if not answer.unprocessed or not self._retries.budget.spend():
                break
            if not self._retries.wait(max(asked, self._retries.jitter(mean)), deadline):
                break
            mean *= 2
            positions = answer.unprocessed
            left = None if timeout is None else deadline - self._retries.clock()
            later, asked = self._again(_part(answer.request, positions), [answer.keys[i] for i in positions], left)
            if later is not None:
                answer = answer._merged(positions, later)
        return answer

    def _again(self, request: pb.BatchGetRequest, keys: list[Any], timeout: float | None) -> tuple[Answer | None, float]:
        """The answer of keys that are asked again, None when nothing came of it, and the pause in
        seconds that the proxy asks for."""
        try:
            return self._get(request, keys, timeout), 0.0
        except Error as error:
            if error.answer is None and error.code not in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            ):
                raise
            return error.answer, error.retry_after or 0.0

    def _get(self, request: pb.BatchGetRequest, keys: Sequence[Any], timeout: float | None) -> Answer:
        timeout = self._timeout if timeout is None else timeout
        clock = self._retries.clock
        deadline = clock() + (PATIENCE if timeout is None else timeout)

        def attempt() -> Answer:
            left = max(deadline - clock(), 0)
            return self._attempt(request, keys, left, sent=timeout is not None)

        return self._retries.call(attempt, deadline)

    def _attempt(self, request: pb.BatchGetRequest, keys: Sequence[Any], left: float, sent: bool) -> Answer:
        """Makes one call, which ends after left seconds. Unless that is sent as the deadline, the
        timeout of the table applies."""
        call = self.stub.BatchGet.future(request, timeout=left if sent else None, metadata=self.metadata())
        try:
            response = call.result(None if sent else left)
        except grpc.FutureTimeoutError:
            call.cancel()
            raise Error(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {PATIENCE:g} s of a call without timeout"
            ) from None
        except grpc.RpcError as failed:
            raise Error.of(failed, request, keys) from failed
        if len(response.results) != len(keys):
            raise Error(grpc.StatusCode.INTERNAL, "the proxy answered another number of keys than were asked")
        return Answer(request, keys, response)


def _part(request: pb.BatchGetRequest, positions: Sequence[int]) -> pb.BatchGetRequest:
    """The same lookup of some of its keys."""
    out = pb.BatchGetRequest()
    out.CopyFrom(request)
    del out.keys[:], out.optional_keys[:], out.page_tokens[:]
    out.keys.extend(request.keys[i] for i in positions)
    if request.page_tokens:
        out.page_tokens.extend(request.page_tokens[i] for i in positions)
    # What was shed as optional is wanted now, and all that is asked for.
    out.min_keys = 0
    out.ClearField("soft_deadline")
    return out


def _channel_options(tls: Any, keepalive: float, max_answer_bytes: int) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = [
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        ("grpc.enable_retries", 0),  # Those of gRPC do not know which failures a retry can help.
        ("grpc.max_receive_message_length", max_answer_bytes),
        ("grpc.max_send_message_length", max_answer_bytes),
    ]
    if keepalive > 0:
        out += [
            ("grpc.keepalive_time_ms", round(keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", 5000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ]
    if isinstance(tls, Tls) and tls.server_name:
        out.append(("grpc.ssl_target_name_override", tls.server_name))
    return out
