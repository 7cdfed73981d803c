module github.com/qosproxy/qosproxy/api/qosproxy/cql

go 1.23.0

require (
	github.com/apache/cassandra-gocql-driver/v2 v2.1.2
	// The one of the same release. Those who import this module do not see the replacement.
	github.com/qosproxy/qosproxy/api v0.1.0
)

require (
	golang.org/x/net v0.41.0 // indirect
	golang.org/x/sys v0.33.0 // indirect
	golang.org/x/text v0.26.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250707201910-8d1bb00bc6a7 // indirect
	google.golang.org/grpc v1.75.1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
)

replace github.com/qosproxy/qosproxy/api => ../..
