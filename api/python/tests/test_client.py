"""Retries in a time of their own, and answers."""

import unittest

import grpc

import qosproxy
from qosproxy.answer import Answer, Error
from qosproxy.client import _part
from qosproxy.retry import Budget, Retries
from qosproxy.v1 import qosproxy_pb2 as pb
from qosproxy.v1 import value_pb2


class Clock:
    """A time that passes by sleeping alone."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def failure(code, reason="", retry_after=None):
    error = Error(code, "no")
    error.reason, error.retry_after = reason, retry_after
    return error


def run(failures, most=2, shed=False, deadline=10.0, rand=0.5, budget=None):
    """Calls, each of which fails as told until the failures end; returns how many, the code and the pauses."""
    clock = Clock()
    retries = Retries(most, shed, lambda: clock.now, clock.sleep, lambda: rand)
    retries.budget = budget or Budget()
    calls, left = 0, list(failures)

    def attempt():
        nonlocal calls
        calls += 1
        if left:
            raise left.pop(0)

    try:
        retries.call(attempt, deadline)
        return calls, None, clock.pauses
    except Error as error:
        return calls, error.code, clock.pauses


U, R = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


class RetriesTest(unittest.TestCase):
    def check(self, failures, calls, code, pauses=None, **options):
        made, got, paused = run(failures, **options)
        self.assertEqual((made, got), (calls, code))
        if pauses is not None:
            self.assertEqual([round(p, 6) for p in paused], pauses)

    def test_what_is_asked_again(self):
        self.check([], 1, None)
        self.check([failure(U)], 2, None, [0.010])
        self.check([failure(U)] * 3, 3, U, [0.010, 0.020])
        self.check([failure(U, "NOT_READY", 0.1)], 2, None, [0.11])
        self.check([failure(U, "NOT_READY", 3600)], 1, U, [])
        self.check([failure(U)], 1, U, most=0)
        self.check([failure(U, "FAILED")], 1, U)
        self.check([failure(R, "SHED", 0.1)], 1, R)
        self.check([failure(R, "SHED", 0.1)], 2, None, [0.11], shed=True)
        for code in grpc.StatusCode:
            if code not in (U, R):
                self.check([failure(code, "X", 0.1)], 1, code, shed=True)

    def test_the_jitter_is_full(self):
        self.check([failure(U)], 2, None, [0.0], rand=0.0)
        self.check([failure(U)], 2, None, [0.02], rand=1.0)

    def test_no_pause_reaches_the_deadline(self):
        self.check([failure(U)], 1, U, [], deadline=0.010)
        self.check([failure(U)], 2, None, [0.010], deadline=0.011)

    def test_retries_have_a_budget(self):
        budget = Budget()
        made = sum(run([failure(U)] * 100, budget=budget)[0] for _ in range(20))
        self.assertEqual(made, 20 + 5)  # half of ten tokens are spent on retries

    def test_successes_earn(self):
        budget = Budget()
        while budget.spend():
            pass
        for _ in range(20):
            budget.earn()
        self.assertTrue(budget.spend())
        self.assertFalse(budget.spend())


def answer(statuses, unprocessed=()):
    results = [pb.KeyResult(status=s, error="" if s <= 2 else "why") for s in statuses]
    columns = [value_pb2.Column(name="n")]
    for r in results:
        if r.status == pb.KEY_STATUS_FOUND:
            r.rows.append(pb.Row(values=[value_pb2.Value(bigint=(1 << 63) - 1)]))
    keys = [f"secret-{i}" for i in range(len(statuses))]
    request = pb.BatchGetRequest(keyspace="a", table="b")
    return Answer(request, keys, pb.BatchGetResponse(columns=columns, results=results, unprocessed_keys=unprocessed))


class Answers(unittest.TestCase):
    def test_a_key_without_answer_has_no_rows(self):
        a = answer([1, 2, 3], [2])
        self.assertEqual(a[0].rows, [{"n": (1 << 63) - 1}])
        self.assertEqual(a[1].rows, [])
        with self.assertRaises(qosproxy.UnansweredError):
            a[2].rows
        self.assertTrue(a.partial)
        with self.assertRaises(qosproxy.UnansweredError) as caught:
            a.require_all()
        self.assertNotIn("secret", str(caught.exception))

    def test_merged(self):
        a = answer([3, 1, 5, 3], [0, 2, 3])
        b = a._merged(a.unprocessed, answer([1, 3, 2], [1]))
        self.assertEqual([int(r.status) for r in b], [1, 1, 3, 2])
        self.assertEqual([r.key for r in b], a.keys)
        self.assertEqual(b.unprocessed, [2])
        self.assertEqual(b[0].rows, [{"n": (1 << 63) - 1}])
        self.assertEqual([int(r.status) for r in a], [3, 1, 5, 3])

    def test_part_of_a_lookup(self):
        request = pb.BatchGetRequest(
            keyspace="a", table="b", keys=[pb.Key(components=[value_pb2.Value(text=c)]) for c in "xyz"],
            page_tokens=["1", "2", "3"], paging=True, optional_keys=[1], min_keys=2, columns=["c"],
        )  # fmt: skip
        request.soft_deadline.FromMilliseconds(1)
        part = _part(request, [0, 2])
        self.assertEqual([k.components[0].text for k in part.keys], ["x", "z"])
        self.assertEqual(part.page_tokens, ["1", "3"])
        self.assertEqual((part.min_keys, list(part.optional_keys), part.HasField("soft_deadline")), (0, [], False))
        self.assertEqual((part.keyspace, part.table, part.columns, part.paging), ("a", "b", ["c"], True))

    def test_a_newer_status(self):
        self.assertEqual(answer([99])[0].status, qosproxy.Status.FAILED)
        self.assertFalse(answer([99])[0].answered)


class Options(unittest.TestCase):
    def test_a_token_needs_encryption(self):
        with self.assertRaisesRegex(ValueError, "unencrypted"):
            qosproxy.Client("127.0.0.1:1", token="secret")
        for target, options in (("unix:///x", {}), ("127.0.0.1:1", {"plaintext_token": True}), ("127.0.0.1:1", {"tls": qosproxy.Tls()})):
            with qosproxy.Client(target, token=lambda: "secret", **options) as client:
                self.assertEqual(client.metadata(), [("authorization", "Bearer secret")])

    def test_wrong_lookups(self):
        with qosproxy.Client("127.0.0.1:1") as client:
            for table, keys, where in (("products", ["a"], ()), ("a.b", [object()], ()), ("a.b", ["a"], [qosproxy.Condition("c", "!=", 1)])):
                with self.assertRaises((ValueError, TypeError)):
                    client.batch_get(table, keys, where=where)

    def test_keepalive(self):
        with self.assertRaises(ValueError):
            qosproxy.Client("127.0.0.1:1", keepalive=1)


if __name__ == "__main__":
    unittest.main()
