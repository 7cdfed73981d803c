"""Looks products up through a qosproxy: lookup.py HOST:PORT KEY..."""

import sys

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from qosproxy.v1 import qosproxy_pb2, qosproxy_pb2_grpc, value_pb2

# Every address of the target in turn, but for proxies that are not ready.
OPTIONS = [
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.service_config", '{"healthCheckConfig": {"serviceName": ""}}'),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.max_receive_message_length", 64 << 20),
]


def why(result):
    """Yields the reason, in one word, of a key that was not answered."""
    if result.reason:
        yield qosproxy_pb2.Reason.Name(result.reason).removeprefix("REASON_").lower()


def show(response, keys):
    """Prints the status of each key, with its reason or its rows."""
    for key, result in zip(keys, response.results):
        print(key, qosproxy_pb2.KeyStatus.Name(result.status).removeprefix("KEY_STATUS_"), *why(result))
        for row in result.rows:
            for column, value in zip(response.columns, row.values):
                kind = value.WhichOneof("kind")
                print("   ", column.name, None if kind == "null" else getattr(value, kind))


def main(address, *keys):
    request = qosproxy_pb2.BatchGetRequest(
        keyspace="shop",
        table="products",
        columns=["name", "stock"],
        keys=[qosproxy_pb2.Key(components=[value_pb2.Value(text=key)]) for key in keys],
    )
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        client = qosproxy_pb2_grpc.QosProxyStub(channel)
        try:
            # The proxy answers shortly before the deadline with the keys it has.
            show(client.BatchGet(request, timeout=0.5), keys)
        except grpc.RpcError as error:
            print(error.code().name)
            status = rpc_status.from_call(error)
            for detail in status.details if status else []:
                for known in (error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo(), qosproxy_pb2.BatchGetResponse()):
                    if not detail.Unpack(known):
                        continue
                    if isinstance(known, qosproxy_pb2.BatchGetResponse):
                        show(known, keys)  # none was answered: why, for each
                    elif isinstance(known, error_details_pb2.ErrorInfo):
                        print("reason", known.metadata["reason"])
                    else:
                        print("field", known.field_violations[0].field)


if __name__ == "__main__":
    main(*sys.argv[1:])
