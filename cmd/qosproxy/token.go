package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/schema"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

func newToken() *cobra.Command {
	var types, configFile, output string
	cmd := &cobra.Command{
		Use:   "token {KEYSPACE.TABLE KEY... | --type TYPES KEY...}",
		Short: "Print the token of keys and who holds them",
		Long: `token prints the Murmur3 token of partition keys. With a table it asks the cluster
for the key's types and prints the replicas of each key in ring order; with --type
it needs no cluster and prints KEY<TAB>TOKEN lines.

A composite key is written a:7, or as JSON '["a",7]'.`,
		Example: `  qosproxy token --type text sku-1 sku-2
  qosproxy token --type bigint,text 7:a
  qosproxy token shop.products sku-1 --config qosproxy.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OneOf(output, "table", "json"); err != nil {
				return err
			}
			if types != "" {
				return tokenByType(cmd, types, args, output)
			}
			if err := command.Exactly(2, -1, "KEYSPACE.TABLE and at least one KEY")(cmd, args); err != nil {
				return err
			}
			return tokenInCluster(cmd, configFile, args[0], args[1:], output)
		},
	}
	cmd.Flags().StringVar(&types, "type", "", "CQL types of the partition key, such as text or bigint,text; needs no cluster")
	command.ConfigFlag(cmd, &configFile)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output: table or json")
	return cmd
}

// tokenByType prints KEY<TAB>TOKEN lines.
func tokenByType(cmd *cobra.Command, list string, keys []string, output string) error {
	if len(keys) == 0 {
		return command.Usagef("expected at least one KEY; see %s --help", cmd.CommandPath())
	}
	types, names, err := parseTypes(list)
	if err != nil {
		return command.Usagef("--type: %w", err)
	}
	rows := make([]tokenRow, len(keys))
	for i, text := range keys {
		key, err := keyFromText(types, names, text)
		if err != nil {
			return command.Usagef("key %q: %w", text, err)
		}
		rows[i] = tokenRow{Key: text, Token: ring.Token(key.Routing())}
	}
	if output == "json" {
		return printJSON(cmd, rows)
	}
	for _, r := range rows {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\t%d\n", r.Key, r.Token)
	}
	return nil
}

// tokenRow is one key in the output.
type tokenRow struct {
	Key      string       `json:"key"`
	Token    int64        `json:"token"`
	Replicas []replicaRow `json:"replicas,omitempty"`
}

// replicaRow is one replica in the output.
type replicaRow struct {
	Host string `json:"host"`
	DC   string `json:"dc"`
	Rack string `json:"rack"`
}

func tokenInCluster(cmd *cobra.Command, configFile, name string, keys []string, output string) error {
	keyspace, table, err := splitTable(name)
	if err != nil {
		return err
	}
	cluster, err := openCluster(cmd.Context(), configFile)
	if err != nil {
		return err
	}
	defer cluster.Close()
	definition, ok := cluster.Schema().Table(keyspace, table)
	if !ok {
		return fmt.Errorf("the cluster has no table %s.%s%s", keyspace, table, suggest.Hint(name, cluster.Schema().Names()))
	}
	placement, ok := cluster.Ring().Placement(keyspace)
	if !ok {
		return fmt.Errorf("keyspace %s: %w", keyspace, cluster.Ring().PlacementError(keyspace))
	}
	types, names := keyTypes(definition.PartitionKey)
	rows := make([]tokenRow, len(keys))
	for i, text := range keys {
		key, err := keyFromText(types, names, text)
		if err != nil {
			return command.Usagef("key %q: %w", text, err)
		}
		rows[i] = tokenRow{Key: text, Token: ring.Token(key.Routing())}
		for _, h := range placement.Replicas(rows[i].Token) {
			host := cluster.Ring().Hosts()[h]
			rows[i].Replicas = append(rows[i].Replicas, replicaRow{Host: host.Addr, DC: host.DC, Rack: host.Rack})
		}
	}
	return printTokens(cmd, rows, output)
}

func printTokens(cmd *cobra.Command, rows []tokenRow, output string) error {
	if output == "json" {
		return printJSON(cmd, rows)
	}
	w := newTable(cmd.OutOrStdout())
	fmt.Fprintln(w, "KEY\tTOKEN\tREPLICAS")
	for _, r := range rows {
		replicas := make([]string, len(r.Replicas))
		for i, h := range r.Replicas {
			replicas[i] = fmt.Sprintf("%s (%s/%s)", h.Host, h.DC, h.Rack)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", r.Key, r.Token, strings.Join(replicas, ", "))
	}
	return w.Flush()
}

// parseTypes parses a comma-separated list of CQL types. A comma within <> or ()
// belongs to the type.
func parseTypes(list string) ([]*cqltype.Type, []string, error) {
	var types []*cqltype.Type
	var names []string
	depth, start := 0, 0
	for i, c := range list + "," {
		switch c {
		case '<', '(':
			depth++
		case '>', ')':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			t, err := cqltype.Parse(strings.TrimSpace(list[start:i]), nil, "")
			if err != nil {
				return nil, nil, err
			}
			if !t.AllowedInPartitionKey() {
				return nil, nil, fmt.Errorf("type %s may not be part of a partition key", t)
			}
			types = append(types, t)
			names = append(names, fmt.Sprintf("component %d", len(types)))
			start = i + 1
		}
	}
	return types, names, nil
}

// keyFromText parses the key that a user typed.
func keyFromText(types []*cqltype.Type, names []string, text string) (partition.Key, error) {
	components, err := cqltype.PartitionKeyFromText(types, names, text)
	if err != nil {
		return partition.Key{}, err
	}
	return partition.NewKey(components...)
}

// keyTypes returns the types and names of partition key columns.
func keyTypes(columns []schema.Column) ([]*cqltype.Type, []string) {
	types, names := make([]*cqltype.Type, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		types[i], names[i] = c.Type, c.Name
	}
	return types, names
}

// printJSON prints a value as indented JSON.
func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
