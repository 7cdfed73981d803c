// Package qosproxy looks rows of Apache Cassandra up by key, many at a time,
// through a qosproxy.
//
//	client, err := qosproxy.Dial("dns:///qosproxy.example.org:50051", qosproxy.Options{})
//	answer, err := client.Get(ctx, qosproxy.Lookup{
//		Table: "shop.products",
//		Keys:  qosproxy.Keys("sku-1", "sku-2"),
//	})
//	for i, result := range answer.All() {
//		products, err := qosproxy.Scan[Product](result)
//	}
//
// # Every key has a status
//
// Get is nil-error as soon as one key was answered; the others timed out, were shed,
// and so on. That cannot be overlooked: the rows of a key come with its error, a
// [*KeyError] unless a replica has answered (found or not found), and
// [Answer.Err] joins those of all keys. A lookup without any answered key is an
// [*Error].
//
// # Deadlines
//
// The deadline of the context travels to the proxy, which answers shortly before
// it with what it has. Without one the proxy applies the timeout of the table.
//
// # Types
//
// [Value] lists which Go value makes which CQL value in a key, and [Scan] into
// which Go types the cells of a row can be scanned. Cells as Cassandra's own bytes
// (Lookup.CQL) are decoded by the package cql below this one, which needs gocql;
// this one does not.
package qosproxy
