"""When a call that failed is made again. The policy is that of every client: api/clients.md."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import grpc

from .answer import Error

FIRST_PAUSE, LONGEST_PAUSE = 0.010, 1.0
"""The mean pause before the first retry where the proxy asks for none, doubled each time, and the
longest, in seconds."""

T = TypeVar("T")


class Budget:
    """Keeps retries from multiplying the load of proxies that fail.

    A failure costs a token, a success earns a tenth of one, and a retry needs half of all ten.
    """

    FULL = 100  # in tenths of a token

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenths = self.FULL

    def earn(self) -> None:
        """Credits a success."""
        with self._lock:
            self._tenths = min(self._tenths + 1, self.FULL)

    def spend(self) -> bool:
        """Charges a failure, and tells whether a retry may follow."""
        with self._lock:
            self._tenths = max(self._tenths - 10, 0)
            return self._tenths >= self.FULL // 2


class Retries:
    """Makes calls, and again where that may help. Clock, sleep and random are for tests."""

    def __init__(
        self,
        most: int,
        shed: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rand: Callable[[], float] = random.random,
    ):
        self.clock, self._sleep, self._rand = clock, sleep, rand
        self._most, self._shed = most, shed
        self.budget = Budget()

    def call(self, attempt: Callable[[], T], deadline: float) -> T:
        """What the first attempt returns that does not raise Error, or the Error of the last.

        There is no attempt after the deadline, a reading of the clock.
        """
        mean = FIRST_PAUSE
        made = 0
        while True:
            try:
                out = attempt()
            except Error as error:
                pause = self._pause(error, mean)
                if pause is None or made >= self._most or not self.budget.spend() or not self.wait(pause, deadline):
                    raise
            else:
                self.budget.earn()
                return out
            made += 1
            mean = min(2 * mean, LONGEST_PAUSE)

    def jitter(self, mean: float) -> float:
        """A pause between none and twice the mean."""
        return 2 * mean * self._rand()

    def wait(self, pause: float, deadline: float) -> bool:
        """Pauses, unless no time would be left then."""
        if deadline - self.clock() <= pause:
            return False
        self._sleep(pause)
        return True

    def _pause(self, error: Error, mean: float) -> float | None:
        """After how many seconds another attempt may help; None for never."""
        unavailable = error.code is grpc.StatusCode.UNAVAILABLE
        if unavailable and not error.reason:
            # Not of a proxy: the connection failed. A proxy that is gone takes many callers with
            # it, who should not come back all at once.
            return self.jitter(mean)
        shed = self._shed and error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        if error.retry_after and (unavailable or shed):
            return error.retry_after * (1 + 0.2 * self._rand())
        return None
