/**
 * Client of qosproxy: lookups of many keys of an Apache Cassandra table at once.
 *
 * ```ts
 * const client = new Client("dns:///qosproxy.example.org:50051");
 * let answer = await client.batchGet("shop.products", ["sku-1", "sku-2"], { timeout: 50 });
 * answer = await client.retryUnprocessed(answer, { timeout: 50 });
 * for (const result of answer) {
 *   console.log(result.key, result.status, result.answered ? result.rows : result.error);
 * }
 * ```
 *
 * @packageDocumentation
 */
export * from "./answer.js";
export * from "./client.js";
export * from "./values.js";
