"""What became of a lookup."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from . import values
from .v1 import qosproxy_pb2 as pb
from .v1 import value_pb2

# How grpcio hands over the google.rpc.Status of a failure.
_DETAILS = "grpc-status-details-bin"


class Status(enum.IntEnum):
    """What became of one key."""

    FOUND = pb.KEY_STATUS_FOUND
    """A replica returned at least one row."""
    NOT_FOUND = pb.KEY_STATUS_NOT_FOUND
    """A replica answered and has no row for the key."""
    TIMED_OUT = pb.KEY_STATUS_TIMED_OUT
    """The lookup ended before any replica answered."""
    UNAVAILABLE = pb.KEY_STATUS_UNAVAILABLE
    """No replica could be asked, or too few for the consistency level."""
    SHED = pb.KEY_STATUS_SHED
    """The proxy refused the key to protect itself or a host."""
    TOO_LARGE = pb.KEY_STATUS_TOO_LARGE
    """The rows exceed a limit of rows or bytes."""
    FAILED = pb.KEY_STATUS_FAILED
    """Every replica failed to read the key, or a newer proxy says what this package does not know."""

    @classmethod
    def _missing_(cls, value: object) -> Status:
        return cls.FAILED


class UnansweredError(Exception):
    """Some keys were not answered. The message names positions, never keys, which may be secret."""

    def __init__(self, results: Sequence[Result], asked: int):
        first = results[0]
        super().__init__(
            f"{len(results)} of {asked} keys were not answered: key {first.index}: {first.status.name}: {first.error}"
        )
        self.results = results
        """The results of these keys, by position."""


class Result:
    """What became of one key."""

    def __init__(self, index: int, key: Any, proto: pb.KeyResult, columns: Sequence[value_pb2.Column]):
        self.index = index
        """The position of the key in the lookup."""
        self.key = key
        """The key as the lookup gave it."""
        self.proto = proto
        """The result as it came."""
        self._columns = columns

    @property
    def status(self) -> Status:
        """What became of the key."""
        return Status(self.proto.status)

    @property
    def answered(self) -> bool:
        """Whether a replica has answered the key: FOUND or NOT_FOUND."""
        return self.status in (Status.FOUND, Status.NOT_FOUND)

    @property
    def reason(self) -> str:
        """Why the key was not answered, in a word of reasons.md such as "soft_deadline"; empty when it was."""
        known = pb.Reason.DESCRIPTOR.values_by_number.get(self.proto.reason)
        # What a newer proxy says and this package does not know is told by the status.
        return known.name.removeprefix("REASON_").lower() if known and known.number else ""

    @property
    def error(self) -> str:
        """Why the key was not answered, in a sentence; empty when it was."""
        return self.proto.error

    @property
    def next_page_token(self) -> str:
        """Names the page behind the rows; empty when there is none, or the lookup had not paging=True."""
        return self.proto.next_page_token

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows in the order that was asked for, as values by the names of columns.

        A null is None; a column that was not asked for is absent. Empty for a key that is NOT_FOUND.
        Raises UnansweredError for one that was not answered, which may have rows.
        """
        if not self.answered:
            raise UnansweredError([self], self.index + 1)
        named = [(c.name, c.type) for c in self._columns]
        return [
            {name: values.decode(t, value) for (name, t), value in zip(named, row.values)} for row in self.proto.rows
        ]


class Answer(Sequence[Result]):
    """The results of a lookup, one for each key, in the order of the keys."""

    def __init__(self, request: pb.BatchGetRequest, keys: Sequence[Any], response: pb.BatchGetResponse):
        self.request = request
        """The lookup that was made."""
        self.keys = keys
        """Its keys as they were given."""
        self.columns: Sequence[value_pb2.Column] = response.columns
        """The columns of the rows, in the order of SELECT * or of the lookup."""
        self.proto = response
        """The answer as it came, with its counts; that of the last request when keys were asked again."""
        self.unprocessed: list[int] = list(response.unprocessed_keys)
        """Positions of the keys for which asking again may help: timed out, unavailable or shed."""
        self._results = [Result(i, k, r, self.columns) for i, (k, r) in enumerate(zip(keys, response.results))]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, i):  # type: ignore[override]
        return self._results[i]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @property
    def partial(self) -> bool:
        """Whether some key was not answered."""
        return not all(r.answered for r in self._results)

    def require_all(self) -> Answer:
        """The answer itself. Raises UnansweredError unless every key was answered."""
        missing = [r for r in self._results if not r.answered]
        if missing:
            raise UnansweredError(missing, len(self))
        return self

    def _merged(self, positions: Sequence[int], later: Answer) -> Answer:
        """This answer with the results of a later one for the keys at some positions."""
        out = Answer(self.request, self.keys, self.proto)
        out.columns, out.proto = self.columns or later.columns, later.proto
        out._results = list(self._results)
        for at, result in zip(positions, later):
            out._results[at] = Result(at, self.keys[at], result.proto, later.columns)
        out.unprocessed = [positions[i] for i in later.unprocessed]
        return out


class Error(Exception):
    """A lookup failed as a whole."""

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        """That of gRPC; qosproxy.proto tells what each means."""
        self.message = message
        """What is wrong and what to do."""
        self.reason = ""
        """The proxy's word for it, of reasons.md, such as "not_ready"; empty when no proxy answered."""
        self.field = ""
        """The part of the request at fault, such as keys[3]; empty when it is none."""
        self.retry_after: float | None = None
        """The seconds after which asking again may help; None when that is no remedy, or no proxy says so."""
        self.answer: Answer | None = None
        """The status of each key of a lookup of which none was answered; None for other failures."""

    @classmethod
    def of(cls, failed: grpc.RpcError, request: pb.BatchGetRequest, keys: Sequence[Any]) -> Error:
        """The error of a call that failed."""
        out = cls(failed.code(), failed.details() or "")  # type: ignore[attr-defined]
        for name, raw in failed.trailing_metadata() or ():  # type: ignore[attr-defined]
            if name == _DETAILS:
                out._explain(status_pb2.Status.FromString(raw), request, keys)
        return out

    def _explain(self, status: status_pb2.Status, request: pb.BatchGetRequest, keys: Sequence[Any]) -> None:
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        response = pb.BatchGetResponse()
        for detail in status.details:
            if detail.Unpack(info):
                self.reason = info.metadata.get("reason") or info.reason.lower()
            elif detail.Unpack(retry):
                self.retry_after = retry.retry_delay.ToNanoseconds() / 1e9 or None
            elif detail.Unpack(bad) and bad.field_violations:
                self.field = bad.field_violations[0].field
            elif detail.Unpack(response) and len(response.results) == len(keys):
                self.answer = Answer(request, keys, response)
