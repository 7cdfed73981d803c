package io.github.qosproxy;

/**
 * A CQL duration: a span in three units that do not convert into each other.
 *
 * @param months of any sign, which all three share
 * @param days of the same sign
 * @param nanoseconds of the same sign
 */
public record CqlDuration(int months, int days, long nanoseconds) {}
