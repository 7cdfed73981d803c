package qosproxy_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qosproxy/qosproxy/api/qosproxy"
)

// Product is a row of shop.products.
type Product struct {
	ID    string           `cql:"id"`
	Name  string           `cql:"name"`
	Price qosproxy.Decimal `cql:"price"`
	Tags  []string         `cql:"tags"`
}

func Example() {
	client, err := qosproxy.Dial(address, qosproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	answer, err := client.Get(context.Background(), qosproxy.Lookup{
		Table: "shop.products",
		Keys:  qosproxy.Keys("sku-1", "nope", "sku-2"),
	})
	if err != nil {
		log.Fatal(err)
	}
	for i, result := range answer.All() {
		products, err := qosproxy.Scan[Product](result)
		fmt.Println(i, result.Status(), products, err)
	}
	// Output:
	// 0 FOUND [{sku-1 Kettle 19.50 [kitchen steel]}] <nil>
	// 1 NOT_FOUND [] <nil>
	// 2 FOUND [{sku-2 Lamp 45.00 []}] <nil>
}

// A client of the sidecar in the same pod, and a client of remote proxies by mutual
// TLS.
func ExampleDial() {
	sidecar, err := qosproxy.Dial("unix:///run/qosproxy/grpc.sock", qosproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer sidecar.Close()

	tls, err := qosproxy.TLSFiles{CA: "ca.pem", Cert: "client.pem", Key: "client-key.pem"}.Load()
	if err != nil {
		log.Fatal(err)
	}
	proxies, err := qosproxy.Dial("dns:///qosproxy.example.org:50051", qosproxy.Options{
		TLS:     tls,
		Token:   qosproxy.TokenFile("/run/secrets/qosproxy/token"),
		Timeout: 100 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer proxies.Close()
}

// A late key does not delay the others, and cannot be mistaken for a key that does not
// exist.
func ExampleClient_Get_partial() {
	client, err := qosproxy.Dial(address, qosproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	answer, err := client.Get(context.Background(), qosproxy.Lookup{
		Table:        "shop.products",
		Keys:         qosproxy.Keys("sku-1", "sku-slow"),
		SoftDeadline: 20 * time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = answer.At(1).Rows()
	var late *qosproxy.KeyError
	fmt.Println(errors.As(err, &late), late.Status)

	var unanswered *qosproxy.UnansweredError
	fmt.Println(errors.As(answer.Err(), &unanswered), len(unanswered.Keys), "of", unanswered.Asked)
	fmt.Println("ask again:", answer.Unprocessed())
	// Output:
	// true TIMED_OUT
	// true 1 of 2
	// ask again: [1]
}

// Each key is printed as soon as it is answered.
func ExampleClient_Stream() {
	client, err := qosproxy.Dial(address, qosproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lookup := qosproxy.Lookup{Table: "shop.products", Keys: qosproxy.Keys("sku-1", "sku-2", "nope"), Columns: []string{"name"}}
	for result, err := range client.Stream(context.Background(), lookup) {
		if err != nil {
			log.Fatal(err)
		}
		rows, err := result.Rows()
		if err != nil {
			log.Fatal(err)
		}
		for _, row := range rows {
			name, err := qosproxy.Get[string](row, "name")
			fmt.Println(result.Index, name, err)
		}
	}
	// Unordered output:
	// 0 Kettle <nil>
	// 1 Lamp <nil>
}

// The table has a partition key of two columns, and several rows in a partition.
func ExampleNewKey() {
	client, err := qosproxy.Dial(address, qosproxy.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	answer, err := client.Get(context.Background(), qosproxy.Lookup{
		Table:   "shop.orders",
		Keys:    []qosproxy.Key{qosproxy.NewKey("north", 2026), qosproxy.NewKey("south", 2026)},
		Columns: []string{"number", "total"},
	})
	if err != nil {
		log.Fatal(err)
	}
	type order struct {
		Number int    `cql:"number"`
		Total  string `cql:"total"`
	}
	orders, err := qosproxy.Scan[order](answer.At(0))
	fmt.Println(orders, err)
	// Output:
	// [{1 10.00} {2 12.50}] <nil>
}
