package io.github.qosproxy;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.github.qosproxy.v1.BatchGetResponse;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;

/** A lookup failed as a whole. */
public final class LookupException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final Code code;
  private String reason = "";
  private String field = "";
  private Duration retryAfter;
  private transient Answer answer;

  LookupException(Code code, String message, Throwable cause) {
    super(code + ": " + message, cause);
    this.code = code;
  }

  /** For tests of the policy. */
  LookupException(Code code, String reason, Duration retryAfter) {
    this(code, "no", (Throwable) null);
    this.reason = reason;
    this.retryAfter = retryAfter;
  }

  static LookupException of(StatusRuntimeException failed, Lookup lookup) {
    var out = new LookupException(failed.getStatus().getCode(), failed.getStatus().getDescription(), failed);
    com.google.rpc.Status status = StatusProto.fromThrowable(failed);
    if (status != null) {
      status.getDetailsList().forEach(detail -> out.explain(detail, lookup));
    }
    return out;
  }

  private void explain(Any detail, Lookup lookup) {
    try {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        reason = info.getMetadataOrDefault("reason", info.getReason().toLowerCase(Locale.ROOT));
      } else if (detail.is(RetryInfo.class)) {
        var delay = detail.unpack(RetryInfo.class).getRetryDelay();
        Duration after = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        retryAfter = after.isZero() ? null : after;
      } else if (detail.is(BadRequest.class)) {
        field = detail.unpack(BadRequest.class).getFieldViolations(0).getField();
      } else if (detail.is(BatchGetResponse.class)) {
        BatchGetResponse response = detail.unpack(BatchGetResponse.class);
        answer = response.getResultsCount() == lookup.keys().size() ? new Answer(lookup, response) : null;
      }
    } catch (InvalidProtocolBufferException | IndexOutOfBoundsException e) {
      addSuppressed(e);
    }
  }

  /** That of gRPC; qosproxy.proto tells what each means. */
  public Code code() {
    return code;
  }

  /** The proxy's word for it, of reasons.md, such as not_ready; empty when no proxy answered. */
  public String reason() {
    return reason;
  }

  /** The part of the request at fault, such as keys[3]; empty when it is none. */
  public String field() {
    return field;
  }

  /** After what time asking again may help; empty when that is no remedy, or no proxy says so. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** The status of each key of a lookup of which none was answered; empty for other failures. */
  public Optional<Answer> answer() {
    return Optional.ofNullable(answer);
  }
}
