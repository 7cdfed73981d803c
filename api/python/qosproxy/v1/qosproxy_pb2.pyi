import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from qosproxy.v1 import value_pb2 as _value_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATOR_UNSPECIFIED: _ClassVar[Operator]
    OPERATOR_EQUAL: _ClassVar[Operator]
    OPERATOR_IN: _ClassVar[Operator]
    OPERATOR_GREATER: _ClassVar[Operator]
    OPERATOR_GREATER_OR_EQUAL: _ClassVar[Operator]
    OPERATOR_LESS: _ClassVar[Operator]
    OPERATOR_LESS_OR_EQUAL: _ClassVar[Operator]

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_UNSPECIFIED: _ClassVar[Order]
    ORDER_CLUSTERING: _ClassVar[Order]
    ORDER_REVERSE: _ClassVar[Order]

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_VALUES: _ClassVar[Encoding]
    ENCODING_CQL: _ClassVar[Encoding]

class KeyStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_STATUS_UNSPECIFIED: _ClassVar[KeyStatus]
    KEY_STATUS_FOUND: _ClassVar[KeyStatus]
    KEY_STATUS_NOT_FOUND: _ClassVar[KeyStatus]
    KEY_STATUS_TIMED_OUT: _ClassVar[KeyStatus]
    KEY_STATUS_UNAVAILABLE: _ClassVar[KeyStatus]
    KEY_STATUS_SHED: _ClassVar[KeyStatus]
    KEY_STATUS_TOO_LARGE: _ClassVar[KeyStatus]
    KEY_STATUS_FAILED: _ClassVar[KeyStatus]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_SOFT_DEADLINE: _ClassVar[Reason]
    REASON_DEADLINE: _ClassVar[Reason]
    REASON_REPLICA_TIMEOUT: _ClassVar[Reason]
    REASON_CANCELLED: _ClassVar[Reason]
    REASON_NO_REPLICA: _ClassVar[Reason]
    REASON_UNREACHABLE: _ClassVar[Reason]
    REASON_TOO_FEW_REPLICAS: _ClassVar[Reason]
    REASON_OPTIONAL: _ClassVar[Reason]
    REASON_CLIENT_CONCURRENCY: _ClassVar[Reason]
    REASON_CLIENT_RATE: _ClassVar[Reason]
    REASON_BROWN_OUT: _ClassVar[Reason]
    REASON_DEADLINE_TOO_SHORT: _ClassVar[Reason]
    REASON_OVERLOAD: _ClassVar[Reason]
    REASON_MEMORY: _ClassVar[Reason]
    REASON_HOSTS_FULL: _ClassVar[Reason]
    REASON_HOSTS_OVERLOADED: _ClassVar[Reason]
    REASON_TOO_MANY_ROWS: _ClassVar[Reason]
    REASON_TOO_MANY_BYTES: _ClassVar[Reason]
    REASON_ANSWER_FULL: _ClassVar[Reason]
    REASON_PARTITION_TOO_LARGE: _ClassVar[Reason]
    REASON_READ_FAILURE: _ClassVar[Reason]
    REASON_TOMBSTONES: _ClassVar[Reason]
    REASON_QUERY_REFUSED: _ClassVar[Reason]
    REASON_HOST_ERROR: _ClassVar[Reason]
    REASON_UNDECODABLE: _ClassVar[Reason]
    REASON_INTERNAL: _ClassVar[Reason]
    REASON_INVALID_REQUEST: _ClassVar[Reason]
    REASON_TOO_MANY_KEYS: _ClassVar[Reason]
    REASON_REQUEST_TOO_LARGE: _ClassVar[Reason]
    REASON_UNSUPPORTED_MEDIA: _ClassVar[Reason]
    REASON_UNKNOWN_METHOD: _ClassVar[Reason]
    REASON_REQUEST_TIMEOUT: _ClassVar[Reason]
    REASON_UNAUTHENTICATED: _ClassVar[Reason]
    REASON_FORBIDDEN_TABLE: _ClassVar[Reason]
    REASON_FORBIDDEN_COLUMN: _ClassVar[Reason]
    REASON_FORBIDDEN_LEVEL: _ClassVar[Reason]
    REASON_UNKNOWN_TABLE: _ClassVar[Reason]
    REASON_NOT_READY: _ClassVar[Reason]
    REASON_NO_PLACEMENT: _ClassVar[Reason]
    REASON_RESETS: _ClassVar[Reason]
    REASON_BUSY: _ClassVar[Reason]

class Avoidance(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AVOIDANCE_UNSPECIFIED: _ClassVar[Avoidance]
    AVOIDANCE_SUSPECT: _ClassVar[Avoidance]
    AVOIDANCE_STALLED: _ClassVar[Avoidance]
    AVOIDANCE_PROBING: _ClassVar[Avoidance]
    AVOIDANCE_EJECTED: _ClassVar[Avoidance]
    AVOIDANCE_FULL: _ClassVar[Avoidance]
    AVOIDANCE_LOST: _ClassVar[Avoidance]

class Comparison(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPARISON_UNSPECIFIED: _ClassVar[Comparison]
    COMPARISON_MATCHED: _ClassVar[Comparison]
    COMPARISON_MISMATCHED: _ClassVar[Comparison]
    COMPARISON_FALLBACK_ABSENT: _ClassVar[Comparison]
    COMPARISON_FALLBACK_SIZE: _ClassVar[Comparison]
    COMPARISON_FALLBACK_COLUMNS: _ClassVar[Comparison]
    COMPARISON_FALLBACK_RING: _ClassVar[Comparison]
    COMPARISON_FALLBACK_REFUSED: _ClassVar[Comparison]
    COMPARISON_FALLBACK_REPLICAS: _ClassVar[Comparison]
    COMPARISON_FALLBACK_SHARE: _ClassVar[Comparison]
    COMPARISON_RECONCILED: _ClassVar[Comparison]

class AttemptKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_KIND_UNSPECIFIED: _ClassVar[AttemptKind]
    ATTEMPT_KIND_FIRST: _ClassVar[AttemptKind]
    ATTEMPT_KIND_HEDGE: _ClassVar[AttemptKind]
    ATTEMPT_KIND_FAILOVER: _ClassVar[AttemptKind]
    ATTEMPT_KIND_COALESCED: _ClassVar[AttemptKind]
    ATTEMPT_KIND_REREAD: _ClassVar[AttemptKind]

class AttemptOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_OUTCOME_UNSPECIFIED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_WON: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_LOST: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_FAILED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_CANCELLED: _ClassVar[AttemptOutcome]
    ATTEMPT_OUTCOME_PENDING: _ClassVar[AttemptOutcome]

class AttemptError(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_ERROR_UNSPECIFIED: _ClassVar[AttemptError]
    ATTEMPT_ERROR_UNREACHABLE: _ClassVar[AttemptError]
    ATTEMPT_ERROR_DISCONNECTED: _ClassVar[AttemptError]
    ATTEMPT_ERROR_UNAVAILABLE: _ClassVar[AttemptError]
    ATTEMPT_ERROR_TIMEOUT: _ClassVar[AttemptError]
    ATTEMPT_ERROR_OVERLOADED: _ClassVar[AttemptError]
    ATTEMPT_ERROR_READ_FAILURE: _ClassVar[AttemptError]
    ATTEMPT_ERROR_INVALID: _ClassVar[AttemptError]
    ATTEMPT_ERROR_OTHER: _ClassVar[AttemptError]
    ATTEMPT_ERROR_RING: _ClassVar[AttemptError]
    ATTEMPT_ERROR_REFUSED: _ClassVar[AttemptError]
    ATTEMPT_ERROR_SIZE: _ClassVar[AttemptError]

class NotHedged(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_HEDGED_UNSPECIFIED: _ClassVar[NotHedged]
    NOT_HEDGED_BUDGET: _ClassVar[NotHedged]
    NOT_HEDGED_LOAD: _ClassVar[NotHedged]
    NOT_HEDGED_DEADLINE: _ClassVar[NotHedged]
    NOT_HEDGED_REPLICAS: _ClassVar[NotHedged]
OPERATOR_UNSPECIFIED: Operator
OPERATOR_EQUAL: Operator
OPERATOR_IN: Operator
OPERATOR_GREATER: Operator
OPERATOR_GREATER_OR_EQUAL: Operator
OPERATOR_LESS: Operator
OPERATOR_LESS_OR_EQUAL: Operator
ORDER_UNSPECIFIED: Order
ORDER_CLUSTERING: Order
ORDER_REVERSE: Order
ENCODING_UNSPECIFIED: Encoding
ENCODING_VALUES: Encoding
ENCODING_CQL: Encoding
KEY_STATUS_UNSPECIFIED: KeyStatus
KEY_STATUS_FOUND: KeyStatus
KEY_STATUS_NOT_FOUND: KeyStatus
KEY_STATUS_TIMED_OUT: KeyStatus
KEY_STATUS_UNAVAILABLE: KeyStatus
KEY_STATUS_SHED: KeyStatus
KEY_STATUS_TOO_LARGE: KeyStatus
KEY_STATUS_FAILED: KeyStatus
REASON_UNSPECIFIED: Reason
REASON_SOFT_DEADLINE: Reason
REASON_DEADLINE: Reason
REASON_REPLICA_TIMEOUT: Reason
REASON_CANCELLED: Reason
REASON_NO_REPLICA: Reason
REASON_UNREACHABLE: Reason
REASON_TOO_FEW_REPLICAS: Reason
REASON_OPTIONAL: Reason
REASON_CLIENT_CONCURRENCY: Reason
REASON_CLIENT_RATE: Reason
REASON_BROWN_OUT: Reason
REASON_DEADLINE_TOO_SHORT: Reason
REASON_OVERLOAD: Reason
REASON_MEMORY: Reason
REASON_HOSTS_FULL: Reason
REASON_HOSTS_OVERLOADED: Reason
REASON_TOO_MANY_ROWS: Reason
REASON_TOO_MANY_BYTES: Reason
REASON_ANSWER_FULL: Reason
REASON_PARTITION_TOO_LARGE: Reason
REASON_READ_FAILURE: Reason
REASON_TOMBSTONES: Reason
REASON_QUERY_REFUSED: Reason
REASON_HOST_ERROR: Reason
REASON_UNDECODABLE: Reason
REASON_INTERNAL: Reason
REASON_INVALID_REQUEST: Reason
REASON_TOO_MANY_KEYS: Reason
REASON_REQUEST_TOO_LARGE: Reason
REASON_UNSUPPORTED_MEDIA: Reason
REASON_UNKNOWN_METHOD: Reason
REASON_REQUEST_TIMEOUT: Reason
REASON_UNAUTHENTICATED: Reason
REASON_FORBIDDEN_TABLE: Reason
REASON_FORBIDDEN_COLUMN: Reason
REASON_FORBIDDEN_LEVEL: Reason
REASON_UNKNOWN_TABLE: Reason
REASON_NOT_READY: Reason
REASON_NO_PLACEMENT: Reason
REASON_RESETS: Reason
REASON_BUSY: Reason
AVOIDANCE_UNSPECIFIED: Avoidance
AVOIDANCE_SUSPECT: Avoidance
AVOIDANCE_STALLED: Avoidance
AVOIDANCE_PROBING: Avoidance
AVOIDANCE_EJECTED: Avoidance
AVOIDANCE_FULL: Avoidance
AVOIDANCE_LOST: Avoidance
COMPARISON_UNSPECIFIED: Comparison
COMPARISON_MATCHED: Comparison
COMPARISON_MISMATCHED: Comparison
COMPARISON_FALLBACK_ABSENT: Comparison
COMPARISON_FALLBACK_SIZE: Comparison
COMPARISON_FALLBACK_COLUMNS: Comparison
COMPARISON_FALLBACK_RING: Comparison
COMPARISON_FALLBACK_REFUSED: Comparison
COMPARISON_FALLBACK_REPLICAS: Comparison
COMPARISON_FALLBACK_SHARE: Comparison
COMPARISON_RECONCILED: Comparison
ATTEMPT_KIND_UNSPECIFIED: AttemptKind
ATTEMPT_KIND_FIRST: AttemptKind
ATTEMPT_KIND_HEDGE: AttemptKind
ATTEMPT_KIND_FAILOVER: AttemptKind
ATTEMPT_KIND_COALESCED: AttemptKind
ATTEMPT_KIND_REREAD: AttemptKind
ATTEMPT_OUTCOME_UNSPECIFIED: AttemptOutcome
ATTEMPT_OUTCOME_WON: AttemptOutcome
ATTEMPT_OUTCOME_LOST: AttemptOutcome
ATTEMPT_OUTCOME_FAILED: AttemptOutcome
ATTEMPT_OUTCOME_CANCELLED: AttemptOutcome
ATTEMPT_OUTCOME_PENDING: AttemptOutcome
ATTEMPT_ERROR_UNSPECIFIED: AttemptError
ATTEMPT_ERROR_UNREACHABLE: AttemptError
ATTEMPT_ERROR_DISCONNECTED: AttemptError
ATTEMPT_ERROR_UNAVAILABLE: AttemptError
ATTEMPT_ERROR_TIMEOUT: AttemptError
ATTEMPT_ERROR_OVERLOADED: AttemptError
ATTEMPT_ERROR_READ_FAILURE: AttemptError
ATTEMPT_ERROR_INVALID: AttemptError
ATTEMPT_ERROR_OTHER: AttemptError
ATTEMPT_ERROR_RING: AttemptError
ATTEMPT_ERROR_REFUSED: AttemptError
ATTEMPT_ERROR_SIZE: AttemptError
NOT_HEDGED_UNSPECIFIED: NotHedged
NOT_HEDGED_BUDGET: NotHedged
NOT_HEDGED_LOAD: NotHedged
NOT_HEDGED_DEADLINE: NotHedged
NOT_HEDGED_REPLICAS: NotHedged

class BatchGetRequest(_message.Message):
    __slots__ = ("keyspace", "table", "keys", "columns", "limit_per_key", "encoding", "explain", "timeout", "soft_deadline", "min_keys", "optional_keys", "where", "order", "consistency", "paging", "page_tokens")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PER_KEY_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SOFT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_KEYS_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_KEYS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    table: str
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    columns: _containers.RepeatedScalarFieldContainer[str]
    limit_per_key: int
    encoding: Encoding
    explain: bool
    timeout: _duration_pb2.Duration
    soft_deadline: _duration_pb2.Duration
    min_keys: int
    optional_keys: _containers.RepeatedScalarFieldContainer[int]
    where: _containers.RepeatedCompositeFieldContainer[Condition]
    order: Order
    consistency: str
    paging: bool
    page_tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keyspace: _Optional[str] = ..., table: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., columns: _Optional[_Iterable[str]] = ..., limit_per_key: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., explain: bool = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., soft_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_keys: _Optional[int] = ..., optional_keys: _Optional[_Iterable[int]] = ..., where: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., order: _Optional[_Union[Order, str]] = ..., consistency: _Optional[str] = ..., paging: bool = ..., page_tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetResponse(_message.Message):
    __slots__ = ("columns", "results", "partial", "unprocessed_keys", "stats", "explanation")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    UNPROCESSED_KEYS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[_value_pb2.Column]
    results: _containers.RepeatedCompositeFieldContainer[KeyResult]
    partial: bool
    unprocessed_keys: _containers.RepeatedScalarFieldContainer[int]
    stats: Stats
    explanation: Explanation
    def __init__(self, columns: _Optional[_Iterable[_Union[_value_pb2.Column, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[KeyResult, _Mapping]]] = ..., partial: bool = ..., unprocessed_keys: _Optional[_Iterable[int]] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ...) -> None: ...

class StreamBatchGetRequest(_message.Message):
    __slots__ = ("keyspace", "table", "keys", "columns", "limit_per_key", "encoding", "timeout", "soft_deadline", "min_keys", "optional_keys", "where", "order", "consistency", "paging", "page_tokens")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_PER_KEY_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    SOFT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_KEYS_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_KEYS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    table: str
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    columns: _containers.RepeatedScalarFieldContainer[str]
    limit_per_key: int
    encoding: Encoding
    timeout: _duration_pb2.Duration
    soft_deadline: _duration_pb2.Duration
    min_keys: int
    optional_keys: _containers.RepeatedScalarFieldContainer[int]
    where: _containers.RepeatedCompositeFieldContainer[Condition]
    order: Order
    consistency: str
    paging: bool
    page_tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keyspace: _Optional[str] = ..., table: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., columns: _Optional[_Iterable[str]] = ..., limit_per_key: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., soft_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_keys: _Optional[int] = ..., optional_keys: _Optional[_Iterable[int]] = ..., where: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ..., order: _Optional[_Union[Order, str]] = ..., consistency: _Optional[str] = ..., paging: bool = ..., page_tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamBatchGetResponse(_message.Message):
    __slots__ = ("header", "result", "summary")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    header: StreamHeader
    result: StreamResult
    summary: StreamSummary
    def __init__(self, header: _Optional[_Union[StreamHeader, _Mapping]] = ..., result: _Optional[_Union[StreamResult, _Mapping]] = ..., summary: _Optional[_Union[StreamSummary, _Mapping]] = ...) -> None: ...

class StreamHeader(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[_value_pb2.Column]
    def __init__(self, columns: _Optional[_Iterable[_Union[_value_pb2.Column, _Mapping]]] = ...) -> None: ...

class StreamResult(_message.Message):
    __slots__ = ("index", "result")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    index: int
    result: KeyResult
    def __init__(self, index: _Optional[int] = ..., result: _Optional[_Union[KeyResult, _Mapping]] = ...) -> None: ...

class StreamSummary(_message.Message):
    __slots__ = ("partial", "unprocessed_keys", "stats")
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    UNPROCESSED_KEYS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    partial: bool
    unprocessed_keys: _containers.RepeatedScalarFieldContainer[int]
    stats: Stats
    def __init__(self, partial: bool = ..., unprocessed_keys: _Optional[_Iterable[int]] = ..., stats: _Optional[_Union[Stats, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("keyspace", "table", "keys")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    table: str
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    def __init__(self, keyspace: _Optional[str] = ..., table: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class DescribeRingRequest(_message.Message):
    __slots__ = ("keyspace", "include_ranges")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RANGES_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    include_ranges: bool
    def __init__(self, keyspace: _Optional[str] = ..., include_ranges: bool = ...) -> None: ...

class DescribeRingResponse(_message.Message):
    __slots__ = ("hosts", "local_datacenter", "keyspaces")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_DATACENTER_FIELD_NUMBER: _ClassVar[int]
    KEYSPACES_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedCompositeFieldContainer[Host]
    local_datacenter: str
    keyspaces: _containers.RepeatedCompositeFieldContainer[KeyspaceRing]
    def __init__(self, hosts: _Optional[_Iterable[_Union[Host, _Mapping]]] = ..., local_datacenter: _Optional[str] = ..., keyspaces: _Optional[_Iterable[_Union[KeyspaceRing, _Mapping]]] = ...) -> None: ...

class KeyspaceRing(_message.Message):
    __slots__ = ("keyspace", "ownership", "ranges")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    OWNERSHIP_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    ownership: _containers.RepeatedScalarFieldContainer[float]
    ranges: _containers.RepeatedCompositeFieldContainer[TokenRange]
    def __init__(self, keyspace: _Optional[str] = ..., ownership: _Optional[_Iterable[float]] = ..., ranges: _Optional[_Iterable[_Union[TokenRange, _Mapping]]] = ...) -> None: ...

class TokenRange(_message.Message):
    __slots__ = ("start", "end", "replicas")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[Table]
    def __init__(self, tables: _Optional[_Iterable[_Union[Table, _Mapping]]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("keyspace", "name", "partition_key", "columns", "max_keys", "max_rows_per_key", "max_response_bytes", "timeout", "consistency", "clustering", "consistencies")
    KEYSPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_KEY_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    MAX_KEYS_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_PER_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    CLUSTERING_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCIES_FIELD_NUMBER: _ClassVar[int]
    keyspace: str
    name: str
    partition_key: _containers.RepeatedCompositeFieldContainer[_value_pb2.Column]
    columns: _containers.RepeatedCompositeFieldContainer[_value_pb2.Column]
    max_keys: int
    max_rows_per_key: int
    max_response_bytes: int
    timeout: _duration_pb2.Duration
    consistency: str
    clustering: _containers.RepeatedCompositeFieldContainer[_value_pb2.Column]
    consistencies: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keyspace: _Optional[str] = ..., name: _Optional[str] = ..., partition_key: _Optional[_Iterable[_Union[_value_pb2.Column, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[_value_pb2.Column, _Mapping]]] = ..., max_keys: _Optional[int] = ..., max_rows_per_key: _Optional[int] = ..., max_response_bytes: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consistency: _Optional[str] = ..., clustering: _Optional[_Iterable[_Union[_value_pb2.Column, _Mapping]]] = ..., consistencies: _Optional[_Iterable[str]] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("components",)
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    components: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
    def __init__(self, components: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("column", "operator", "values")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    column: str
    operator: Operator
    values: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
    def __init__(self, column: _Optional[str] = ..., operator: _Optional[_Union[Operator, str]] = ..., values: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ...) -> None: ...

class KeyResult(_message.Message):
    __slots__ = ("status", "error", "rows", "next_page_token", "reason")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    status: KeyStatus
    error: str
    rows: _containers.RepeatedCompositeFieldContainer[Row]
    next_page_token: str
    reason: Reason
    def __init__(self, status: _Optional[_Union[KeyStatus, str]] = ..., error: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[Row, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., reason: _Optional[_Union[Reason, str]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[_value_pb2.Value]
    def __init__(self, values: _Optional[_Iterable[_Union[_value_pb2.Value, _Mapping]]] = ...) -> None: ...

class Stats(_message.Message):
    __slots__ = ("keys", "groups", "sub_queries", "hedges", "failovers", "elapsed", "coalesced")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SUB_QUERIES_FIELD_NUMBER: _ClassVar[int]
    HEDGES_FIELD_NUMBER: _ClassVar[int]
    FAILOVERS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    COALESCED_FIELD_NUMBER: _ClassVar[int]
    keys: int
    groups: int
    sub_queries: int
    hedges: int
    failovers: int
    elapsed: _duration_pb2.Duration
    coalesced: int
    def __init__(self, keys: _Optional[int] = ..., groups: _Optional[int] = ..., sub_queries: _Optional[int] = ..., hedges: _Optional[int] = ..., failovers: _Optional[int] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., coalesced: _Optional[int] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("plan", "attempts", "deadline", "soft_deadline")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SOFT_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    deadline: _duration_pb2.Duration
    soft_deadline: _duration_pb2.Duration
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., soft_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("keys", "groups", "hosts", "stressed", "statement_cost", "key_cost", "group_size", "quorum", "fallback", "fallback_comparison")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    STRESSED_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_COST_FIELD_NUMBER: _ClassVar[int]
    KEY_COST_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    QUORUM_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_COMPARISON_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[PlannedKey]
    groups: _containers.RepeatedCompositeFieldContainer[PlannedGroup]
    hosts: _containers.RepeatedCompositeFieldContainer[PlannedHost]
    stressed: bool
    statement_cost: _duration_pb2.Duration
    key_cost: _duration_pb2.Duration
    group_size: int
    quorum: bool
    fallback: str
    fallback_comparison: Comparison
    def __init__(self, keys: _Optional[_Iterable[_Union[PlannedKey, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[PlannedGroup, _Mapping]]] = ..., hosts: _Optional[_Iterable[_Union[PlannedHost, _Mapping]]] = ..., stressed: bool = ..., statement_cost: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., key_cost: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., group_size: _Optional[int] = ..., quorum: bool = ..., fallback: _Optional[str] = ..., fallback_comparison: _Optional[_Union[Comparison, str]] = ...) -> None: ...

class PlannedHost(_message.Message):
    __slots__ = ("host", "avoided", "avoidance")
    HOST_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    AVOIDANCE_FIELD_NUMBER: _ClassVar[int]
    host: Host
    avoided: str
    avoidance: Avoidance
    def __init__(self, host: _Optional[_Union[Host, _Mapping]] = ..., avoided: _Optional[str] = ..., avoidance: _Optional[_Union[Avoidance, str]] = ...) -> None: ...

class PlannedKey(_message.Message):
    __slots__ = ("token", "replicas", "group", "groups", "compared", "comparison")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    token: int
    replicas: _containers.RepeatedScalarFieldContainer[str]
    group: int
    groups: _containers.RepeatedScalarFieldContainer[int]
    compared: str
    comparison: Comparison
    def __init__(self, token: _Optional[int] = ..., replicas: _Optional[_Iterable[str]] = ..., group: _Optional[int] = ..., groups: _Optional[_Iterable[int]] = ..., compared: _Optional[str] = ..., comparison: _Optional[_Union[Comparison, str]] = ...) -> None: ...

class PlannedGroup(_message.Message):
    __slots__ = ("host", "keys")
    HOST_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    host: Host
    keys: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, host: _Optional[_Union[Host, _Mapping]] = ..., keys: _Optional[_Iterable[int]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("host", "kind", "keys", "start", "end", "outcome", "error", "hedge_after", "not_hedged", "own_data", "statement_keys", "error_kind", "not_hedged_kind")
    HOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HEDGE_AFTER_FIELD_NUMBER: _ClassVar[int]
    NOT_HEDGED_FIELD_NUMBER: _ClassVar[int]
    OWN_DATA_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_KEYS_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    NOT_HEDGED_KIND_FIELD_NUMBER: _ClassVar[int]
    host: str
    kind: AttemptKind
    keys: _containers.RepeatedScalarFieldContainer[int]
    start: _duration_pb2.Duration
    end: _duration_pb2.Duration
    outcome: AttemptOutcome
    error: str
    hedge_after: _duration_pb2.Duration
    not_hedged: str
    own_data: bool
    statement_keys: int
    error_kind: AttemptError
    not_hedged_kind: NotHedged
    def __init__(self, host: _Optional[str] = ..., kind: _Optional[_Union[AttemptKind, str]] = ..., keys: _Optional[_Iterable[int]] = ..., start: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., end: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., outcome: _Optional[_Union[AttemptOutcome, str]] = ..., error: _Optional[str] = ..., hedge_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., not_hedged: _Optional[str] = ..., own_data: bool = ..., statement_keys: _Optional[int] = ..., error_kind: _Optional[_Union[AttemptError, str]] = ..., not_hedged_kind: _Optional[_Union[NotHedged, str]] = ...) -> None: ...

class Host(_message.Message):
    __slots__ = ("id", "address", "datacenter", "rack", "release", "tokens")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DATACENTER_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    datacenter: str
    rack: str
    release: str
    tokens: int
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., datacenter: _Optional[str] = ..., rack: _Optional[str] = ..., release: _Optional[str] = ..., tokens: _Optional[int] = ...) -> None: ...
