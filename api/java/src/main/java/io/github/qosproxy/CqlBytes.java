package io.github.qosproxy;

import java.nio.ByteBuffer;

/**
 * A component of a key of any type as Cassandra serializes it.
 *
 * @param cell its bytes, from position to limit
 */
public record CqlBytes(ByteBuffer cell) {}
