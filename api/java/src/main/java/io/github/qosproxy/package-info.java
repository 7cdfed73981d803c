/**
 * Client of qosproxy: lookups of many keys of an Apache Cassandra table at once.
 *
 * <pre>{@code
 * try (var client = QosProxyClient.builder("dns:///qosproxy.example.org:50051").build()) {
 *   var lookup = Lookup.of("shop.products", "sku-1", "sku-2").timeout(Duration.ofMillis(50));
 *   var answer = client.retryUnprocessed(client.batchGet(lookup));
 *   for (Result result : answer) {
 *     System.out.println(result.isAnswered() ? result.rows() : result.error());
 *   }
 * }
 * }</pre>
 */
package io.github.qosproxy;
