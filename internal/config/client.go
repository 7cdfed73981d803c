package config

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/qosproxy/qosproxy/internal/identity"
)

// Client is a caller with an identity: its credentials, its share of the proxy and the
// tables that it may read. Where clients are configured, other callers are refused.
type Client struct {
	// Name is shown in logs and metrics; required and unique.
	Name string `yaml:"name"`
	// SPIFFE are the SPIFFE IDs, and DNSSAN the DNS names, in certificates of the
	// client.
	SPIFFE []string `yaml:"spiffe"`
	DNSSAN []string `yaml:"dns_san"`
	// TokenFile holds the bearer tokens of the client, one in each line; it is read
	// again when it changes.
	TokenFile string `yaml:"token_file"`
	// SocketHeader is the value that the client sends in the header qosproxy-client,
	// which is trusted only on a unix socket.
	SocketHeader string `yaml:"socket_header"`
	// Priority is the priority of its lookups; nil means standard.
	Priority *identity.Priority `yaml:"priority"`
	// KeysPerSecond is the sustained rate of keys; 0 is no limit.
	KeysPerSecond float64 `yaml:"keys_per_second"`
	// BurstKeys is how many keys it may ask at once beyond that rate; 0 means the keys
	// of one second, but at least its largest lookup.
	BurstKeys int `yaml:"burst_keys"`
	// MaxConcurrent is the most lookups it may have in flight; 0 is no limit.
	MaxConcurrent int `yaml:"max_concurrent"`
	// Tables are those of Config.Tables that it may read.
	Tables []ClientTable `yaml:"tables"`
}

// ClientTable is a table that a client may read.
type ClientTable struct {
	// Name is one of Config.Tables.
	Name TableName `yaml:"name"`
	// Columns are the columns that it may read, of those of the table; empty means
	// all of them.
	Columns []string `yaml:"columns"`
}

// Share returns the client in the form that the rest of the proxy uses, with its
// defaults filled in.
func (c *Config) Share(client *Client) identity.Client {
	out := identity.Client{
		Name:          client.Name,
		Priority:      identity.Standard,
		KeysPerSecond: client.KeysPerSecond,
		BurstKeys:     client.BurstKeys,
		MaxConcurrent: client.MaxConcurrent,
	}
	override(&out.Priority, client.Priority)
	var grants []identity.Grant
	largest := 1
	for _, t := range client.Tables {
		grants = append(grants, identity.Grant{Keyspace: t.Name.Keyspace, Table: t.Name.Table, Columns: t.Columns})
		if i := c.tableAt(t.Name); i >= 0 {
			largest = max(largest, c.Effective(&c.Tables[i]).MaxKeys)
		}
	}
	out.Access = identity.NewAccess(grants)
	if out.KeysPerSecond > 0 && out.BurstKeys == 0 {
		out.BurstKeys = max(largest, int(min(math.Ceil(out.KeysPerSecond), math.MaxInt32)))
	}
	return out
}

// tableAt returns the position of a table in Tables, -1 when it is not there.
func (c *Config) tableAt(name TableName) int {
	return slices.IndexFunc(c.Tables, func(t Table) bool { return t.Name == name })
}

// clientName matches the names that a client may have in logs and metrics.
var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// dnsName matches DNS names without wildcards.
var dnsName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*$`)

// headerValue matches what a header carries unchanged.
var headerValue = regexp.MustCompile(`^[!-~]{1,255}$`)

func (v *validator) clients(c *Config) {
	// taken has the first client with each name and each credential.
	taken := map[string]string{}
	once := func(path, what, value, remedy string) {
		if before, twice := taken[what+value]; twice {
			v.check(false, path, "%q is already the %s of %s; %s", value, what, before, remedy)
			return
		}
		taken[what+value], _, _ = strings.Cut(path, ".")
	}
	for i := range c.Clients {
		client := &c.Clients[i]
		path := fmt.Sprintf("clients[%d]", i)
		switch {
		case client.Name == "":
			v.check(false, path+".name", "is missing; give the client a name for logs and metrics")
		case !clientName.MatchString(client.Name):
			v.check(false, path+".name", "%q is not a name; use up to 63 letters, digits and ._-", client.Name)
		case client.Name == identity.Anonymous.Name:
			v.check(false, path+".name", "%s is the name of every caller when there are no clients; choose another name", client.Name)
		default:
			once(path+".name", "name", client.Name, "choose another")
		}
		v.marks(c, path, client, once)
		v.check(client.KeysPerSecond >= 0, path+".keys_per_second", "%v is below 0; use 0 for no limit", client.KeysPerSecond)
		v.check(client.BurstKeys >= 0, path+".burst_keys", "%d is below 0; use 0 for one second's worth", client.BurstKeys)
		v.check(client.BurstKeys <= 0 || client.KeysPerSecond != 0, path+".burst_keys", "is set without keys_per_second, which it extends; set keys_per_second as well")
		v.check(client.MaxConcurrent >= 0, path+".max_concurrent", "%d is below 0; use 0 for no limit", client.MaxConcurrent)
		v.clientTables(c, path+".tables", client.Tables)
	}
}

// marks checks the credentials that identify a client.
func (v *validator) marks(c *Config, path string, client *Client, once func(path, what, value, remedy string)) {
	const remedy = "each client needs its own"
	certificates := c.Listen.GRPC != "" && c.Listen.TLS.GRPC.ClientCAFile != "" || c.Listen.HTTP != "" && c.Listen.TLS.HTTP.ClientCAFile != ""
	sockets := strings.HasPrefix(c.Listen.GRPC, unixScheme) || strings.HasPrefix(c.Listen.HTTP, unixScheme)
	v.check(len(client.SPIFFE)+len(client.DNSSAN) > 0 || client.TokenFile != "" || client.SocketHeader != "", path,
		"nothing identifies this client; set spiffe, dns_san, token_file or socket_header")
	for i, id := range client.SPIFFE {
		at := fmt.Sprintf("%s.spiffe[%d]", path, i)
		v.check(spiffeID(id), at, "%q is not a SPIFFE ID; write spiffe://trust-domain/path", id)
		once(at, "SPIFFE ID", id, remedy)
	}
	for i, name := range client.DNSSAN {
		at := fmt.Sprintf("%s.dns_san[%d]", path, i)
		v.check(dnsName.MatchString(name), at, "%q is not a DNS name without wildcards; write the name as it is in the certificate", name)
		once(at, "DNS name", strings.ToLower(name), remedy)
	}
	for _, mark := range []struct {
		key   string
		names []string
	}{{".spiffe", client.SPIFFE}, {".dns_san", client.DNSSAN}} {
		v.check(len(mark.names) == 0 || certificates, path+mark.key,
			"needs client certificates, which neither grpc nor http requests; set client_ca_file in listen.tls.grpc or listen.tls.http")
	}
	if client.TokenFile != "" {
		once(path+".token_file", "token file", client.TokenFile, remedy)
	}
	if client.SocketHeader != "" {
		at := path + ".socket_header"
		switch {
		case !headerValue.MatchString(client.SocketHeader):
			v.check(false, at, "%q cannot be the value of a header; use letters, digits and punctuation, without spaces", client.SocketHeader)
		case !sockets:
			v.check(false, at, "is trusted only on a unix socket, and neither grpc nor http is one; set listen.grpc or listen.http to unix:///path")
		default:
			once(at, "socket header", client.SocketHeader, remedy)
		}
	}
}

// spiffeID reports whether s is a SPIFFE ID of a workload.
func spiffeID(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "spiffe" || u.Host == "" || u.Path == "" || u.String() != s {
		return false
	}
	return u.Port() == "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && strings.ToLower(u.Host) == u.Host &&
		!strings.Contains(u.Path, "//") && !strings.HasSuffix(u.Path, "/")
}

// clientTables checks what a client may read against the configured tables.
func (v *validator) clientTables(c *Config, path string, tables []ClientTable) {
	v.check(len(tables) > 0, path, "is missing, so the client can read nothing; list the tables that it may read")
	first := map[TableName]int{}
	for i, t := range tables {
		at := fmt.Sprintf("%s[%d]", path, i)
		v.columns(at+".columns", t.Columns)
		if t.Name == (TableName{}) {
			v.check(false, at+".name", "is missing; write name: keyspace.table")
			continue
		}
		if before, twice := first[t.Name]; twice {
			v.check(false, at+".name", "%s is listed twice, here and as %s[%d]; merge the two", t.Name, path, before)
			continue
		}
		first[t.Name] = i
		of := c.tableAt(t.Name)
		if of < 0 {
			v.check(false, at+".name", "%s is not in tables, and only those can be read; add it there, or correct the name", t.Name)
			continue
		}
		for k, column := range t.Columns {
			may := c.Tables[of].Columns
			v.check(column == "" || len(may) == 0 || slices.Contains(may, column), fmt.Sprintf("%s.columns[%d]", at, k),
				"%q is not in tables[%d].columns, and a client can read no more than those; add it there or remove it here", column, of)
		}
	}
}
