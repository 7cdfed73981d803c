package io.github.qosproxy;

import io.github.qosproxy.v1.KeyStatus;

/** What became of one key. */
public enum Status {
  /** A replica returned at least one row. */
  FOUND,
  /** A replica answered and has no row for the key. */
  NOT_FOUND,
  /** The lookup ended before any replica answered. */
  TIMED_OUT,
  /** No replica could be asked, or too few for the consistency level. */
  UNAVAILABLE,
  /** The proxy refused the key to protect itself or a host. */
  SHED,
  /** The rows exceed a limit of rows or bytes. */
  TOO_LARGE,
  /** Every replica failed to read the key, or a newer proxy says what this package does not know. */
  FAILED;

  /** Whether a replica has answered the key: FOUND or NOT_FOUND. */
  public boolean isAnswered() {
    return this == FOUND || this == NOT_FOUND;
  }

  static Status of(KeyStatus status) {
    return switch (status) {
      case KEY_STATUS_FOUND -> FOUND;
      case KEY_STATUS_NOT_FOUND -> NOT_FOUND;
      case KEY_STATUS_TIMED_OUT -> TIMED_OUT;
      case KEY_STATUS_UNAVAILABLE -> UNAVAILABLE;
      case KEY_STATUS_SHED -> SHED;
      case KEY_STATUS_TOO_LARGE -> TOO_LARGE;
      default -> FAILED;
    };
  }
}
