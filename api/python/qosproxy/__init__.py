"""Client of qosproxy: lookups of many keys of an Apache Cassandra table at once.

    import qosproxy

    with qosproxy.Client("dns:///qosproxy.example.org:50051") as client:
        answer = client.batch_get("shop.products", ["sku-1", "sku-2"], timeout=0.05)
        answer = client.retry_unprocessed(answer, timeout=0.05)
        for result in answer:
            print(result.key, result.status.name, result.rows if result.answered else result.error)
"""

from .answer import Answer, Error, Result, Status, UnansweredError
from .client import Client, Condition, Key, Tls
from .values import (
    EMPTY,
    Cql,
    Date,
    Duration,
    Empty,
    Float,
    FloatVector,
    FrozenList,
    FrozenMap,
    FrozenUdt,
    Time,
    Timestamp,
    Udt,
    Vector,
)

__all__ = [
    "EMPTY", "Answer", "Client", "Condition", "Cql", "Date", "Duration", "Empty", "Error", "Float", "FloatVector",
    "FrozenList", "FrozenMap", "FrozenUdt", "Key", "Result", "Status", "Time", "Timestamp", "Tls", "Udt",
    "UnansweredError", "Vector",
]  # fmt: skip
