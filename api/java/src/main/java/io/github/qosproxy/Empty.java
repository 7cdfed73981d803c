package io.github.qosproxy;

/**
 * The value of zero bytes that Cassandra allows for types in which it has no other meaning, such as
 * int. It is not null.
 */
public enum Empty {
  /** The only one. */
  EMPTY
}
