// Package qosproxy is the Go client of qosproxy. It looks up rows of Apache Cassandra
// by key, many at a time.
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
// Get returns no error when at least one key was answered. Others may have timed out,
// may have been shed, and so on. This cannot be overlooked: the rows of a key come with
// its error, which is a [*KeyError] unless a replica has answered (found or not found).
// [Answer.Err] joins the errors of all keys. A lookup without any answered key returns
// an [*Error].
//
// # Deadlines
//
// The deadline of the context travels to the proxy, which answers shortly before
// it with what it has. Without one the proxy applies the timeout of the table.
//
// # Types
//
// [Value] lists which Go value becomes which CQL value in a key. [Scan] lists the Go
// types into which the cells of a row can be scanned. Package cql below this one decodes
// cells that came as Cassandra's own bytes (Lookup.CQL). It needs gocql; this package
// does not.
package qosproxy
