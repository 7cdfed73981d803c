package cassandra

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/qosproxy/qosproxy/internal/ring"
)

// row is one row of a system table by column name, as the driver scans it.
type row = map[string]any

// view is the cluster as one of its nodes describes it.
type view struct {
	// from is the id of the node that was asked.
	from string
	// hosts are those that own tokens, sorted by id. Nodes without tokens
	// (coordinators only, and those still joining) are left out: whether they
	// are listed depends on which node is asked.
	hosts []ring.Host
	// partial describes the incomplete rows, of nodes that are joining or that the asked node has
	// just heard of.
	partial []string
	// cluster is the name of the cluster, release the version of the asked node.
	cluster, release string
	// schema is the version of the schema of the asked node.
	schema string
	// agreed is whether all nodes have that version, as far as the asked one knows, and shared
	// whether more than half of them do.
	agreed, shared bool
	// believed is whether its hosts, or those of a view before it, are now those that serve.
	believed bool
}

// errPartitioner means a cluster whose tokens are not Murmur3's.
var errPartitioner = errors.New("the cluster does not use Murmur3Partitioner, the only one whose tokens are known")

// newView makes a view of the row of system.local and those of system.peers_v2 or, for servers
// before 4.0, system.peers. Nodes that report no port have the given one.
func newView(local row, peers []row, port int) (view, error) {
	if p := text(local["partitioner"]); p != "" && !strings.HasSuffix(p, "Murmur3Partitioner") {
		return view{}, fmt.Errorf("%w: it uses %s", errPartitioner, p)
	}
	v := view{
		from: text(local["host_id"]), cluster: text(local["cluster_name"]), release: text(local["release_version"]),
		schema: text(local["schema_version"]),
	}
	if v.from == "" {
		return view{}, errors.New("system.local has no host_id yet")
	}
	v.add(local, port, "rpc_address", "rpc_port", "broadcast_address", "listen_address")
	same, others := 1, 0
	for _, p := range peers {
		v.add(p, port, "native_address", "native_port", "rpc_address", "peer")
		switch text(p["schema_version"]) {
		case "":
		case v.schema:
			same++
		default:
			others++
		}
	}
	v.agreed, v.shared = others == 0, same > others
	slices.SortFunc(v.hosts, func(a, b ring.Host) int { return strings.Compare(a.ID, b.ID) })
	return v, nil
}

// add adds the host of a row, or to partial what the row lacks. The address is in the first of the
// named columns that has one.
func (v *view) add(r row, port int, address, portColumn string, fallbacks ...string) {
	h := ring.Host{
		ID: text(r["host_id"]), DC: text(r["data_center"]), Rack: text(r["rack"]), Release: text(r["release_version"]),
	}
	var missing []string
	note := func(ok bool, what string) {
		if !ok {
			missing = append(missing, what)
		}
	}
	if p, ok := r[portColumn].(int); ok && p > 0 && p <= 65535 {
		port = p
	}
	for _, column := range append([]string{address}, fallbacks...) {
		if ip, ok := hostAddress(r[column]); ok {
			h.Addr = net.JoinHostPort(ip.String(), strconv.Itoa(port))
			break
		}
	}
	tokens, err := tokenSet(r["tokens"])
	note(err == nil, "readable tokens")
	note(h.ID != "", "host_id")
	note(h.Addr != "", "address")
	note(h.DC != "", "data_center")
	note(h.Rack != "", "rack")
	note(len(tokens) > 0 || err != nil, "tokens")
	if len(missing) > 0 {
		name := h.Addr
		if name == "" {
			name = "host " + h.ID
		}
		v.partial = append(v.partial, name+" lacks "+strings.Join(missing, ", "))
		return
	}
	h.Tokens = tokens
	v.hosts = append(v.hosts, h)
}

// text returns a text or uuid cell; a null uuid, which the driver scans as
// zero, is empty.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case gocql.UUID:
		if v == (gocql.UUID{}) {
			return ""
		}
		return v.String()
	}
	return ""
}

// hostAddress returns the address in an inet cell, and whether it is one of a node: the unspecified
// address, which means all interfaces, is not.
func hostAddress(v any) (netip.Addr, bool) {
	var a netip.Addr
	switch v := v.(type) {
	case net.IP:
		a, _ = netip.AddrFromSlice(v)
	case string:
		a, _ = netip.ParseAddr(v)
	}
	a = a.Unmap()
	return a, a.IsValid() && !a.IsUnspecified()
}

// tokenSet reads the set<text> of a host's tokens, and sorts it.
func tokenSet(v any) ([]int64, error) {
	texts, _ := v.([]string)
	tokens := make([]int64, len(texts))
	for i, s := range texts {
		t, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("token %q: %w", s, err)
		}
		tokens[i] = t
	}
	slices.Sort(tokens)
	return tokens, nil
}
