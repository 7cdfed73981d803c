package io.github.qosproxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.qosproxy.v1.BatchGetResponse;
import io.github.qosproxy.v1.Column;
import io.github.qosproxy.v1.KeyResult;
import io.github.qosproxy.v1.KeyStatus;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Retries in a time of their own, and answers. */
class ClientTest {
  private static final Code U = Code.UNAVAILABLE;
  private static final Code R = Code.RESOURCE_EXHAUSTED;

  private static LookupException failure(Code code, String reason, long retryMillis) {
    return new LookupException(code, reason, retryMillis == 0 ? null : Duration.ofMillis(retryMillis));
  }

  private static LookupException lost() {
    return failure(U, "", 0);
  }

  /** Makes calls that fail as told, in a time that passes by sleeping alone. */
  private static final class Run {
    int most = 2;
    boolean shed;
    double random = 0.5;
    Duration deadline = Duration.ofSeconds(10);
    Retries.Budget budget = new Retries.Budget();
    int calls;
    List<Long> pauses = new ArrayList<>();
    private long now;

    Code of(LookupException... failures) {
      Deque<LookupException> left = new ArrayDeque<>(List.of(failures));
      var retries = new Retries(most, shed, budget, () -> now, this::sleep, () -> random);
      try {
        return retries.call(() -> attempt(left), deadline.toNanos());
      } catch (LookupException e) {
        return e.code();
      }
    }

    private void sleep(long nanos) {
      pauses.add(Math.round(nanos / 1e6));
      now += nanos;
    }

    private Code attempt(Deque<LookupException> left) {
      calls++;
      if (!left.isEmpty()) {
        throw left.pop();
      }
      return Code.OK;
    }
  }

  private static void check(Run run, int calls, Code code, List<Long> pauses, LookupException... failures) {
    assertEquals(code, run.of(failures));
    assertEquals(calls, run.calls);
    assertEquals(pauses, run.pauses);
  }

  @Test
  void whatIsAskedAgain() {
    check(new Run(), 1, Code.OK, List.of());
    check(new Run(), 2, Code.OK, List.of(10L), lost());
    check(new Run(), 3, U, List.of(10L, 20L), lost(), lost(), lost());
    check(new Run(), 2, Code.OK, List.of(110L), failure(U, "NOT_READY", 100));
    check(new Run(), 1, U, List.of(), failure(U, "NOT_READY", 3_600_000));
    check(new Run(), 1, U, List.of(), failure(U, "FAILED", 0));
    check(new Run(), 1, R, List.of(), failure(R, "SHED", 100));
    Run none = new Run();
    none.most = 0;
    check(none, 1, U, List.of(), lost());
    for (Code code : Code.values()) {
      Run shed = new Run();
      shed.shed = true;
      boolean again = code == U || code == R;
      check(shed, again ? 2 : 1, again ? Code.OK : code, again ? List.of(110L) : List.of(), failure(code, "X", 100));
    }
  }

  @Test
  void theJitterIsFull() {
    for (double random : new double[] {0, 1}) {
      Run run = new Run();
      run.random = random;
      check(run, 2, Code.OK, List.of((long) (20 * random)), lost());
    }
  }

  @Test
  void noPauseReachesTheDeadline() {
    Run run = new Run();
    run.deadline = Duration.ofMillis(10);
    check(run, 1, U, List.of(), lost());
    run = new Run();
    run.deadline = Duration.ofMillis(11);
    check(run, 2, Code.OK, List.of(10L), lost());
  }

  @Test
  void retriesHaveABudget() {
    var budget = new Retries.Budget();
    int made = 0;
    for (int i = 0; i < 20; i++) {
      Run run = new Run();
      run.budget = budget;
      run.of(Collections.nCopies(100, lost()).toArray(LookupException[]::new));
      made += run.calls;
    }
    assertEquals(20 + 5, made, "half of ten tokens are spent on retries");
  }

  @Test
  void successesEarn() {
    var budget = new Retries.Budget();
    while (budget.spend()) {}
    for (int i = 0; i < 20; i++) {
      budget.earn();
    }
    assertTrue(budget.spend());
    assertFalse(budget.spend());
  }

  private static Answer answer(List<Integer> unprocessed, int... statuses) {
    List<Object> keys = new ArrayList<>();
    var response = BatchGetResponse.newBuilder().addColumns(Column.newBuilder().setName("n")).addAllUnprocessedKeys(unprocessed);
    for (int s : statuses) {
      keys.add("secret-" + keys.size());
      var result = KeyResult.newBuilder().setStatusValue(s);
      if (s == KeyStatus.KEY_STATUS_FOUND_VALUE) {
        result.addRowsBuilder().addValues(Values.encode(Long.MAX_VALUE));
      }
      response.addResults(result);
    }
    return new Answer(Lookup.of("a.b", keys), response.build());
  }

  @Test
  void aKeyWithoutAnswerHasNoRows() {
    Answer a = answer(List.of(2), 1, 2, 3);
    Row row = a.get(0).rows().get(0);
    assertEquals(Long.MAX_VALUE, row.getLong("n"));
    assertFalse(row.has("absent"));
    assertThrows(IllegalArgumentException.class, () -> row.get("absent"));
    assertThrows(ClassCastException.class, () -> row.getString("n"));
    assertEquals(List.of(), a.get(1).rows());
    assertThrows(UnansweredException.class, () -> a.get(2).rows());
    assertTrue(a.isPartial());
    var failed = assertThrows(UnansweredException.class, a::requireAll);
    assertFalse(failed.getMessage().contains("secret"));
  }

  @Test
  void answersAreMerged() {
    Answer a = answer(List.of(0, 2, 3), 3, 1, 5, 3);
    Answer b = a.merged(answer(List.of(1), 1, 3, 2));
    assertEquals(List.of(Status.FOUND, Status.FOUND, Status.TIMED_OUT, Status.NOT_FOUND), b.results().stream().map(Result::status).toList());
    assertEquals(a.lookup().keys(), b.results().stream().map(Result::key).toList());
    assertEquals(List.of(2), b.unprocessed());
    assertEquals(Long.MAX_VALUE, b.get(0).rows().get(0).getLong("n"));
    assertEquals(Status.SHED, a.get(2).status());
  }

  @Test
  void aPartOfALookup() {
    Lookup all = Lookup.of("a.b", "x", "y", Key.of("z", 1)).columns("c").paging("1", "2", "3").optional(List.of(1)).softDeadline(Duration.ofMillis(1), 2);
    Lookup part = all.part(List.of(0, 2));
    assertEquals(List.of(Key.of("x"), Key.of("z", 1)), part.keys());
    assertEquals(2, part.request().getKeysCount());
    assertEquals("z", part.request().getKeys(1).getComponents(0).getText());
    assertEquals(List.of("1", "3"), List.copyOf(part.request().getPageTokensList()));
    assertEquals(0, part.request().getOptionalKeysCount() + part.request().getMinKeys());
    assertFalse(part.request().hasSoftDeadline());
    assertEquals(List.of("c"), List.copyOf(part.request().getColumnsList()));
    assertNull(part.timeout());
  }

  @Test
  void aNewerStatus() {
    assertEquals(Status.FAILED, answer(List.of(), 99).get(0).status());
  }

  @Test
  void wrongOptionsAndLookups() {
    var plain = QosProxyClient.builder("127.0.0.1:1").token(() -> "secret");
    assertThrows(IllegalArgumentException.class, plain::build);
    plain.plaintextToken().build().close();
    assertThrows(IllegalArgumentException.class, () -> plain.keepalive(Duration.ofSeconds(1)));
    assertThrows(IllegalArgumentException.class, () -> Lookup.of("products", "a"));
    assertThrows(IllegalArgumentException.class, () -> Lookup.of("a.b", new Object()));
  }
}
