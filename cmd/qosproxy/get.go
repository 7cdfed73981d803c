package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/cqltype"
	"github.com/qosproxy/qosproxy/internal/partition"
)

// getFlags are the flags of the command.
type getFlags struct {
	proxy   proxyFlags
	columns []string
	limit   int32
	all     bool
	timeout time.Duration
	soft    time.Duration
	minKeys int32
	where   []string
	reverse bool
	level   string
	explain bool
	output  string
}

func newGet() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get KEYSPACE.TABLE KEY...",
		Short: "Look keys up through a running proxy",
		Long: `get asks a running proxy for the rows of keys, over gRPC, and prints them with the
status of each key. It exits 1 when some key was not answered.

A composite key is written a:7, or as JSON '["a",7]'. In a table with clustering columns a key
may go on with their values, user-0007/likes_tea, or as JSON '["user-0007","likes_tea"]': it then
asks for the rows that begin with them. --where restricts the clustering columns behind those,
with = > >= < <= or, for several values as JSON, in. --all reads all rows, in pages of --limit.

With --soft-deadline it takes the keys that are answered by then, if there are at least
--min-keys of them. With --explain it also draws how the lookup was read: hosts, groups,
and a line for each sub-query.`,
		Example: `  qosproxy get shop.products sku-00001 sku-00002
  qosproxy get shop.features user-0007 --columns feature,score --explain
  qosproxy get shop.features user-0007/likes_tea user-0008/likes_tea
  qosproxy get shop.features user-0007 --where 'feature>=l' --where 'feature<m' --reverse
  qosproxy get shop.features user-0007 --limit 100 --all
  qosproxy get shop.products sku-00001 sku-00002 --soft-deadline 10ms --min-keys 1
  qosproxy get shop.products sku-00001 -o json --addr unix:///run/qosproxy/grpc.sock
  qosproxy get shop.products sku-00001 --token-file /run/secrets/qosproxy/token
  qosproxy get shop.products sku-00001 --addr proxy.example.org:50051 --ca ca.pem --cert client.pem --key client-key.pem`,
		Args: command.Exactly(2, -1, "KEYSPACE.TABLE and at least one KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OneOf(f.output, "table", "json"); err != nil {
				return err
			}
			return f.run(cmd, args[0], args[1:])
		},
	}
	f.proxy.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&f.columns, "columns", nil, "columns to return (default: all that may be read)")
	cmd.Flags().Int32Var(&f.limit, "limit", 0, "greatest number of rows of one key, or with --all of one page (default: the table's max_rows_per_key)")
	cmd.Flags().Int32Var(&f.limit, "limit-per-key", 0, "the same as --limit")
	cmd.Flags().BoolVar(&f.all, "all", false, "read all rows, in pages of --limit; with -o json each page is a document")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "deadline of the lookup (default: the table's timeout)")
	cmd.Flags().DurationVar(&f.soft, "soft-deadline", 0, "when to answer if --min-keys keys are answered (default: wait for every key)")
	cmd.Flags().Int32Var(&f.minKeys, "min-keys", 0, "least number of answered keys at the soft deadline (default: 1)")
	cmd.Flags().StringArrayVar(&f.where, "where", nil, "restrict a clustering column, such as 'ts>=2026-01-01' or 'kind in [\"a\",\"b\"]'; may be repeated")
	cmd.Flags().BoolVar(&f.reverse, "reverse", false, "return the rows of a key from the last to the first")
	cmd.Flags().StringVar(&f.level, "consistency", "", "consistency level, among those that the table allows (default: the table's)")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "draw the plan and every sub-query")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "output: table or json")
	return cmd
}

func (f *getFlags) run(cmd *cobra.Command, name string, keys []string) error {
	keyspace, table, err := splitTable(name)
	if err != nil {
		return err
	}
	conn, err := f.proxy.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := conn.API()
	definition, err := f.describe(cmd.Context(), client, keyspace, table)
	if err != nil {
		return err
	}
	req := &qosproxyv1.BatchGetRequest{
		Keyspace: keyspace, Table: table, Columns: f.columns, LimitPerKey: f.limit,
		Encoding: qosproxyv1.Encoding_ENCODING_CQL, Explain: f.explain, MinKeys: f.minKeys,
	}
	if f.soft != 0 {
		req.SoftDeadline = durationpb.New(f.soft)
	}
	if f.timeout > 0 {
		req.Timeout = durationpb.New(f.timeout)
	}
	if req.Keys, err = wireKeys(definition, keys); err != nil {
		return err
	}
	if req.Where, err = wireConditions(definition, f.where); err != nil {
		return err
	}
	if req.Consistency = f.level; f.reverse {
		req.Order = qosproxyv1.Order_ORDER_REVERSE
	}
	print := &getPrinter{cmd: cmd, json: f.output == "json", pages: f.all}
	for req.Paging = f.all; ; {
		resp, err := f.ask(cmd.Context(), client, req)
		if err != nil {
			return err
		}
		page := &getResult{keys: keys, resp: resp}
		if err := print.page(page); err != nil {
			return err
		}
		if resp.GetPartial() {
			return fmt.Errorf("%d of %d keys were not answered", page.unanswered(), len(keys))
		}
		if keys, req = page.next(req); len(keys) == 0 {
			return print.end()
		}
	}
}

// ask makes one lookup.
func (f *getFlags) ask(ctx context.Context, client qosproxyv1.QosProxyClient, req *qosproxyv1.BatchGetRequest) (*qosproxyv1.BatchGetResponse, error) {
	// A deadline is not used: the proxy would take it in place of the table's timeout.
	patience := f.timeout + answerTimeout
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(patience, func() { cancel(errNoAnswer) }).Stop()
	resp, err := client.BatchGet(ctx, req)
	if resp = answered(resp, err); resp != nil {
		return resp, nil
	}
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return nil, fmt.Errorf("no answer from %s within %s", f.proxy.addr, patience)
	}
	return nil, f.proxy.explainError(err)
}

// answerTimeout is how long the command waits for an answer, in addition to --timeout if it
// is set. A table with a longer timeout needs --timeout.
var answerTimeout = 30 * time.Second

var errNoAnswer = errors.New("no answer")

// describe asks the proxy for the definition of a table.
func (f *getFlags) describe(ctx context.Context, client qosproxyv1.QosProxyClient, keyspace, table string) (*qosproxyv1.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	tables, err := client.ListTables(ctx, &qosproxyv1.ListTablesRequest{})
	if err != nil {
		return nil, f.proxy.explainError(err)
	}
	for _, t := range tables.GetTables() {
		if t.GetKeyspace() == keyspace && t.GetName() == table {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the proxy at %s does not serve %s.%s; it serves %s", f.proxy.addr, keyspace, table, tableNames(tables.GetTables()))
}

// tableNames lists tables for a message.
func tableNames(tables []*qosproxyv1.Table) string {
	if len(tables) == 0 {
		return "no table (see tables in its configuration)"
	}
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.GetKeyspace() + "." + t.GetName()
	}
	return strings.Join(names, ", ")
}

// answered returns the response of a call; nil if there is none. A lookup in which no key was
// answered is an error that carries the response with the status of each key.
func answered(resp *qosproxyv1.BatchGetResponse, err error) *qosproxyv1.BatchGetResponse {
	if err == nil {
		return resp
	}
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*qosproxyv1.BatchGetResponse); ok {
			return r
		}
	}
	return nil
}

// wireKeys converts keys as the user typed them to keys of the table.
func wireKeys(table *qosproxyv1.Table, typed []string) ([]*qosproxyv1.Key, error) {
	partitionKey := len(table.GetPartitionKey())
	types, names, err := wireTypes(slices.Concat(table.GetPartitionKey(), table.GetClustering()))
	if err != nil {
		return nil, err
	}
	keys := make([]*qosproxyv1.Key, len(typed))
	for i, text := range typed {
		components, err := cqltype.KeyFromText(types, names, partitionKey, text)
		if err == nil {
			_, err = partition.NewRowKey(partitionKey, components...)
		}
		if err != nil {
			return nil, command.Usagef("key %q: %w", text, err)
		}
		keys[i] = &qosproxyv1.Key{Components: cqlValues(components)}
	}
	return keys, nil
}
