package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/qosproxy/qosproxy/internal/cassandra"
)

// The sample data of the demo.
const (
	demoProducts = 5_000
	demoUsers    = 500
	demoFeatures = 6
	demoWriters  = 64
)

// demoSchema returns the statements that create the sample tables. Speculation is left to the proxy
// (NONE): the coordinator's own would multiply with it.
func demoSchema(datacenter string, replication int) []string {
	return []string{
		fmt.Sprintf(`CREATE KEYSPACE IF NOT EXISTS shop WITH replication =
			{'class': 'NetworkTopologyStrategy', '%s': %d}`, datacenter, replication),
		`CREATE TABLE IF NOT EXISTS shop.products (
			id text PRIMARY KEY, name text, price decimal, stock int, tags set<text>, updated timestamp
		) WITH speculative_retry = 'NONE'`,
		`CREATE TABLE IF NOT EXISTS shop.features (
			user text, feature text, score float, updated timestamp, PRIMARY KEY (user, feature)
		) WITH speculative_retry = 'NONE'`,
	}
}

// demoID returns the key of a product.
func demoID(i int) string { return fmt.Sprintf("sku-%05d", i) }

var (
	demoAdjectives = []string{"Quiet", "Copper", "Folding", "Nordic", "Electric", "Travel", "Family", "Classic"}
	demoNouns      = []string{"Kettle", "Lamp", "Backpack", "Teapot", "Radio", "Chair", "Knife", "Blanket"}
	demoTags       = []string{"new", "sale", "kitchen", "outdoor", "gift", "bestseller"}
	demoNames      = []string{"avg_basket", "days_since_visit", "likes_tea", "likes_travel", "price_band", "return_rate"}
)

// loadDemo writes the sample data. It calls progress with the number of rows written and of all
// rows.
func loadDemo(ctx context.Context, client *cassandra.Client, progress func(done, all int)) error {
	all := demoProducts + demoUsers*demoFeatures
	done := 0
	counted := func(rows iter.Seq[[]any]) iter.Seq[[]any] {
		return func(yield func([]any) bool) {
			for row := range rows {
				if !yield(row) {
					return
				}
				if done++; done%500 == 0 || done == all {
					progress(done, all)
				}
			}
		}
	}
	// A fixed seed gives every demo the same catalogue.
	random := rand.New(rand.NewPCG(1, 2))
	for _, table := range []struct {
		name string
		rows iter.Seq[[]any]
	}{
		{"shop.products", demoProductRows(random)},
		{"shop.features", demoFeatureRows(random)},
	} {
		if err := client.Load(ctx, "INSERT INTO "+table.name+" JSON ?", counted(table.rows), demoWriters); err != nil {
			return fmt.Errorf("load %s: %w", table.name, err)
		}
	}
	return nil
}

// demoProductRows yields the products, each as the argument of INSERT JSON.
func demoProductRows(random *rand.Rand) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for i := range demoProducts {
			name := demoAdjectives[random.IntN(len(demoAdjectives))] + " " + demoNouns[random.IntN(len(demoNouns))]
			row := fmt.Sprintf(`{"id": %q, "name": %q, "price": %d.%02d, "stock": %d, "tags": [%q, %q], "updated": %q}`,
				demoID(i), name, random.IntN(200)+1, random.IntN(100), random.IntN(500),
				demoTags[random.IntN(len(demoTags))], demoTags[random.IntN(len(demoTags))], demoTime(random))
			if !yield([]any{row}) {
				return
			}
		}
	}
}

// demoFeatureRows yields the features of users, each as the argument of INSERT JSON.
func demoFeatureRows(random *rand.Rand) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for u := range demoUsers {
			for _, feature := range demoNames {
				row := fmt.Sprintf(`{"user": "user-%04d", "feature": %q, "score": %.3f, "updated": %q}`,
					u, feature, random.Float32(), demoTime(random))
				if !yield([]any{row}) {
					return
				}
			}
		}
	}
}

// demoTime returns a random time in the form of INSERT JSON.
func demoTime(random *rand.Rand) string {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return day.Add(time.Duration(random.IntN(300*24)) * time.Hour).Format("2006-01-02 15:04:05.000Z")
}
