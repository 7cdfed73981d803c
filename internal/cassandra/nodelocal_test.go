package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qosproxy/qosproxy/internal/executor"
	"github.com/qosproxy/qosproxy/internal/ring"
)

// Answers of the server, with their codes in the native protocol.
var (
	errRefused  = answer{0x2200, "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes"}
	errNoLevel  = answer{0x000A, "Unknown code 11 for a consistency level"}
	errNoGrant  = answer{0x2100, "User proxy has no SELECT permission on <table system_views.gossip_info>"}
	errNoTable  = answer{0x2200, "table gossip_info does not exist"}
	errNoColumn = answer{0x2200, "Undefined column name status in table system_views.gossip_info"}
	errLoaded   = answer{0x1001, "overloaded"}
	errTombs    = answer{0x0000, "TombstoneOverwhelmingException"}
	errTooBusy  = answer{0x1002, "bootstrapping"}
	errInTooBig = answer{0x2200, "Guardrail partition_keys_in_select violated"}
)

// fakeNodes is a cluster as nodeLocal sees it.
type fakeNodes struct {
	*nodeLocal
	mu        sync.Mutex
	now       *ring.Ring
	members   []member
	refused   map[string]error
	gossiping error
	stuck     bool
	onGossip  func()
	version   string
	refreshed time.Time
	refreshes int
	probes    int
	logged    bytes.Buffer
}

func newFakeNodes(t *testing.T, n int) *fakeNodes {
	f := &fakeNodes{refused: map[string]error{}}
	f.setRing(t, n)
	f.members = members(n)
	f.nodeLocal = newNodeLocal(nodeLocalCluster{
		ring:      func() *ring.Ring { return locked(f, func() *ring.Ring { return f.now }) },
		version:   func() string { return locked(f, func() string { return f.version }) },
		refreshed: func() time.Time { return locked(f, func() time.Time { return f.refreshed }) },
		refresh:   func() { f.set(func() { f.refreshes++; f.refreshed = time.Now() }) },
		gossip: func(ctx context.Context, _ ring.Host) ([]member, error) {
			if locked(f, func() bool { return f.stuck }) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if during := locked(f, func() func() { return f.onGossip }); during != nil {
				during()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.members, f.gossiping
		},
		probe: func(_ context.Context, h ring.Host) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.probes++
			return f.refused[h.ID]
		},
	}, slog.New(slog.NewTextHandler(&f.logged, nil)))
	return f
}

func locked[T any](f *fakeNodes, get func() T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return get()
}

func (f *fakeNodes) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeNodes) setRing(t *testing.T, n int) {
	t.Helper()
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i + 1
	}
	f.setHosts(t, hosts(ids...))
}

func (f *fakeNodes) setHosts(t *testing.T, hosts []ring.Host) {
	t.Helper()
	r, err := ring.New(ring.Topology{Hosts: hosts, LocalDC: "dc1"})
	require.NoError(t, err)
	f.set(func() { f.now = r })
}

// members returns members 1…n at rest.
func members(n int) []member {
	out := make([]member, n)
	for i := range out {
		out[i] = member{id: fmt.Sprintf("id-%d", i+1), addr: fmt.Sprintf("10.0.0.%d", i+1), status: "NORMAL", generation: 100}
	}
	return out
}

func turned(m []member, i int, status string) []member {
	m[i].status = status
	return m
}

func placed(m []member, i int, token string) []member {
	m[i].token = token
	return m
}

// passes reports which hosts are read at NODE_LOCAL by plans of the ring that serves.
func (f *fakeNodes) passes() string {
	r := f.cluster.ring()
	var out strings.Builder
	for _, h := range r.Hosts() {
		if f.letsPass(&executor.SubQuery{Host: h, Ring: r}) {
			out.WriteString(strings.TrimPrefix(h.ID, "id-"))
		}
	}
	return out.String()
}

// watchedFor runs f's watch and test in a bubble of fake time.
func (f *fakeNodes) watchedFor(t *testing.T, test func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { f.watch(ctx); close(done) }()
	synctest.Wait()
	test()
	cancel()
	<-done
	assert.Empty(t, f.passes(), "the end of the watch closes the gate")
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// lookAgain is longer than the pause between two looks, whose jitter is 10 %.
const lookAgain = lookInterval + lookInterval/10 + time.Millisecond

// opened waits until the gate of a cluster at rest is open.
func (f *fakeNodes) opened(t *testing.T) {
	t.Helper()
	after(restPeriod + lookAgain)
	require.Equal(t, "123", f.passes())
}

func TestNodeLocalWaitsForRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			require.Empty(t, f.passes(), "a ring that is new")
			after(restPeriod - time.Millisecond)
			require.Empty(t, f.passes())
			after(time.Second + 2*time.Millisecond)
			require.Equal(t, "123", f.passes())
			require.Equal(t, 1, f.refreshes, "the ring was not refreshed by itself since it came")
			require.False(t, f.letsPass(&executor.SubQuery{Host: f.now.Host(0)}), "a host of which nobody says that it is a replica")
		})
		require.Contains(t, f.logged.String(), "reads go at NODE_LOCAL")
	})
}

func TestNodeLocalWhileOwnershipChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeNodes)
		within time.Duration
	}{
		"a node joins":                       {func(f *fakeNodes) { f.members = turned(members(4), 3, "BOOT") }, lookAgain},
		"a node has joined, by gossip alone": {func(f *fakeNodes) { f.members = members(4) }, lookAgain},
		"a node leaves":                      {func(f *fakeNodes) { f.members = turned(members(3), 1, "LEAVING") }, lookAgain},
		"a node moves":                       {func(f *fakeNodes) { f.members = turned(members(3), 1, "MOVING") }, lookAgain},
		"nobody answers any more":            {func(f *fakeNodes) { f.gossiping = errors.New("broken") }, lookAgain},
		"nobody answers in time":             {func(f *fakeNodes) { f.stuck = true }, gateLease},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeNodes(t, 3)
				f.watchedFor(t, func() {
					f.opened(t)
					f.set(func() { test.change(f) })
					after(test.within)
					require.Empty(t, f.passes())
					after(time.Hour)
					require.Empty(t, f.passes(), "for as long as it lasts")
					f.set(func() { f.members, f.gossiping, f.stuck = members(3), nil, false })
					f.opened(t)
				})
			})
		})
	}
}

// The gate is open to plans of one ring alone.
func TestNodeLocalKnowsOneRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			old := f.now
			f.setRing(t, 3)
			require.Empty(t, f.passes(), "plans of the new ring, at once")
			require.False(t, f.letsPass(&executor.SubQuery{Host: old.Host(0), Ring: old}), "plans of the old one")
			after(restPeriod)
			require.Empty(t, f.passes(), "it takes a look to see that the ring is new, and the rest")
			f.opened(t)
			require.False(t, f.letsPass(&executor.SubQuery{Host: old.Host(0), Ring: old}))
		})
	})
}

func TestNodeLocalGateAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			q := &executor.SubQuery{Host: f.now.Host(0), Ring: f.now}
			require.Zero(t, testing.AllocsPerRun(100, func() { f.begin(q) }))
		})
	})
}

func TestNodeLocalEndsWithAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			f.disturb("an event")
			require.Empty(t, f.passes(), "at once")
			after(restPeriod - time.Millisecond)
			require.Empty(t, f.passes())
			f.opened(t)
			f.set(func() { f.onGossip = func() { f.disturb("an event during the look") } })
			after(lookAgain)
			require.Empty(t, f.passes(), "a look that began before the event says nothing about it")
		})
	})
}

// A node that has moved is NORMAL before the proxy has heard of its new token.
func TestNodeLocalWaitsForTheRingOfAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.watchedFor(t, func() {
			f.opened(t)
			f.set(func() { f.members = turned(members(3), 1, "MOVING") })
			after(lookAgain)
			require.Empty(t, f.passes())
			f.set(func() { f.members = placed(members(3), 1, "1002") })
			after(time.Hour)
			require.Empty(t, f.passes(), "the ring has it at its old place")
			f.setHosts(t, moved(hosts(1, 2, 3), 1))
			after(lookAgain)
			require.Empty(t, f.passes())
			f.opened(t)
		})
	})
}

// versioned sets the versions of the schemas of members.
func versioned(versions ...string) []member {
	m := members(len(versions))
	for i, v := range versions {
		m[i].schema = v
	}
	return m
}

// ALTER KEYSPACE moves ownership; the event of it may be lost.
func TestNodeLocalWaitsForTheSchemaOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.version, f.members = "v1", versioned("v1", "v1", "v1")
		f.watchedFor(t, func() {
			f.opened(t)
			f.set(func() { f.members = versioned("v1", "v2", "v1") })
			after(lookAgain)
			require.Empty(t, f.passes())
			require.Equal(t, "10.0.0.2 has another schema than the one that serves; it is waited for, up to 3m0s", *f.closed.Load())
			f.set(func() { f.members = versioned("v2", "v2", "v2") })
			after(time.Minute)
			require.Empty(t, f.passes(), "v1 still serves")
			f.set(func() { f.version = "v2" })
			f.opened(t)
		})
	})
}

// A host that is down keeps the schema that it had, and other versions of
// Cassandra compute other versions of the schema.
func TestNodeLocalWaitsNotForEverForASchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.version, f.members = "v1", versioned("v1", "v1", "v1")
		f.watchedFor(t, func() {
			f.opened(t)
			f.set(func() { f.version, f.members = "v2", versioned("v2", "v1", "v2") })
			after(lookAgain)
			require.Empty(t, f.passes())
			after(schemaPatience - lookAgain)
			require.Empty(t, f.passes())
			after(restPeriod + 2*lookAgain)
			require.Equal(t, "123", f.passes())
			require.Empty(t, *f.closed.Load())

			f.set(func() { f.version, f.members = "v3", turned(versioned("v3", "v1", "v3"), 1, "") })
			after(lookAgain)
			f.set(func() { f.members = versioned("v3", "v1", "v3") })
			after(lookAgain)
			require.Equal(t, "123", f.passes(), "it has not become another host meanwhile")
			f.set(func() {
				f.members = versioned("v3", "v1", "v3")
				f.members[1].generation++
			})
			after(lookAgain)
			require.Empty(t, f.passes(), "it has started again, and writes by the old schema")
		})
	})
}

// A refresh soon after an event may have asked a node that had not heard of the change.
func TestNodeLocalWaitsForARefreshAfterTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.cluster.refresh = func() { f.set(func() { f.refreshes++ }) }
		f.refreshed = time.Now().Add(restPeriod)
		f.watchedFor(t, func() {
			f.opened(t)
			require.Zero(t, f.refreshes)
			f.disturb("an event")
			after(100 * time.Millisecond)
			f.set(func() { f.refreshed = time.Now() })
			after(time.Hour)
			require.Empty(t, f.passes())
			require.Positive(t, f.refreshes, "one is asked for")
			f.set(func() { f.refreshed = time.Now() })
			after(time.Second)
			require.Equal(t, "123", f.passes())
		})
	})
}

func TestNodeLocalWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		for next := f.look(t.Context()); f.passes() == ""; next = f.look(t.Context()) {
			time.Sleep(next)
		}
		time.Sleep(gateLease - time.Millisecond)
		require.Equal(t, "123", f.passes())
		time.Sleep(time.Millisecond)
		require.Empty(t, f.passes(), "the gate closes by itself")
	})
}

func TestNodeLocalHostsThatRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes(t, 3)
		f.refused["id-1"], f.refused["id-2"], f.refused["id-3"] = errRefused, errNoLevel, errRefused
		f.watchedFor(t, func() {
			after(time.Minute)
			require.Empty(t, f.passes())
			require.Equal(t, 1, strings.Count(f.logged.String(), "no cassandra host allows NODE_LOCAL"))
			require.Contains(t, f.logged.String(), "-Dcassandra.enable_nodelocal_queries=true")

			f.set(func() { delete(f.refused, "id-1"); delete(f.refused, "id-3") })
			after(probeInterval + restPeriod + lookAgain)
			require.Equal(t, "13", f.passes(), "hosts are asked again now and then")
			require.Contains(t, f.logged.String(), "hosts=10.0.0.2:9042")

			f.refuse(f.now.Host(0))
			require.Equal(t, "3", f.passes(), "a refused read counts at once")
			after(time.Second)
			require.Contains(t, f.logged.String(), "hosts=\"10.0.0.1:9042, 10.0.0.2:9042\"")

			probes := f.probes
			f.set(func() {
				delete(f.refused, "id-2")
				f.members = members(3)
				f.members[1].generation++
			})
			after(2 * lookAgain)
			require.Equal(t, "23", f.passes(), "a host that was started anew is asked at once")
			require.Less(t, f.probes, probes+3, "and no other")

			f.set(func() {
				f.refused["id-2"] = errors.New("no connection")
				f.members = members(3)
				f.members[1].generation += 2
			})
			after(2 * lookAgain)
			require.Equal(t, "3", f.passes(), "until it has answered")
		})
	})
}

func TestNodeLocalSaysWhyGossipCannotBeRead(t *testing.T) {
	for want, err := range map[string]error{
		"GRANT SELECT ON system_views.gossip_info": errNoGrant,
		"needs Cassandra 5.0":                      errNoTable,
		"Undefined column name":                    errNoColumn,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeNodes(t, 3)
			f.gossiping = fmt.Errorf("SELECT: %w", err)
			f.watchedFor(t, func() {
				after(time.Hour)
				require.Empty(t, f.passes())
			})
			require.Contains(t, f.logged.String(), want)
			require.Equal(t, 1, strings.Count(f.logged.String(), "level=WARN"), f.logged.String())
		})
	}
}

func TestRestless(t *testing.T) {
	r, err := ring.New(ring.Topology{Hosts: hosts(1, 2, 3), LocalDC: "dc1"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		members []member
		want    string
	}{
		"at rest":                              {members(3), ""},
		"a node is stopped":                    {turned(members(3), 1, "SHUTDOWN"), ""},
		"a node is down since the asked began": {turned(members(3), 1, ""), ""},
		"a node starts":                        {turned(members(4), 3, ""), "10.0.0.4 is starting"},
		"a node joins":                         {turned(members(4), 3, "BOOT"), "10.0.0.4 is BOOT"},
		"a node replaces another":              {turned(members(4), 3, "BOOT_REPLACE"), "10.0.0.4 is BOOT_REPLACE"},
		"a node replaces itself":               {turned(members(3), 2, "HIBERNATE"), "10.0.0.3 is replaced"},
		"a node has joined":                    {members(4), "10.0.0.4 has joined and is not in the ring yet"},
		"a node leaves":                        {turned(members(3), 2, "LEAVING"), "10.0.0.3 is LEAVING"},
		"a node moves":                         {turned(members(3), 2, "MOVING"), "10.0.0.3 is MOVING"},
		"a node is removed":                    {turned(members(3), 2, "REMOVING"), "10.0.0.3 is REMOVING"},
		"a node is where the ring has it":      {placed(members(3), 1, "2"), ""},
		"a node has moved":                     {placed(members(3), 1, "1002"), "10.0.0.2 has moved and is not in the ring at its new place yet"},
		"a token of another partitioner":       {placed(members(3), 1, "abc"), "10.0.0.2 has moved and is not in the ring at its new place yet"},
		"a node has left, says gossip":         {turned(members(3), 2, "LEFT"), "10.0.0.3:9042 has left and is in the ring still"},
		"a node has been removed, says gossip": {turned(members(3), 2, "REMOVED"), "10.0.0.3:9042 has left and is in the ring still"},
		"a node left days ago":                 {turned(members(4), 3, "LEFT"), ""},
		"a coordinator without data":           {turned(members(4), 3, "HIBERNATE"), ""},
		"a word of a later Cassandra":          {turned(members(3), 0, "LEVITATING"), "10.0.0.1 is LEVITATING"},
		"gossip that lacks a host":             {members(2), "10.0.0.3:9042 is in the ring and not in gossip"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, restless(r, test.members)) })
	}
}

func TestNewMember(t *testing.T) {
	for want, r := range map[member]row{
		{id: "a", addr: "10.0.0.1", status: "NORMAL", token: "-1", schema: "v1", generation: 7}: {
			"host_id": "a", "address": "10.0.0.1", "schema": "v1", "status": "", "status_with_port": "NORMAL,-1", "generation": 7,
		},
		{id: "b", addr: "10.0.0.2", status: "SHUTDOWN"}: {"host_id": "b", "address": "10.0.0.2", "status": "shutdown,true"},
		{}: {},
	} {
		assert.Equal(t, want, newMember(r))
	}
}

func TestWhatIsAskedAgainAtLocalOne(t *testing.T) {
	for err, want := range map[error]struct{ again, refuses bool }{
		errRefused:                 {true, true},
		errNoLevel:                 {true, true},
		errTombs:                   {true, false},
		errInTooBig:                {true, false},
		errLoaded:                  {false, false},
		errTooBusy:                 {false, false},
		context.DeadlineExceeded:   {false, false},
		errors.New("lost contact"): {false, false},
	} {
		assert.Equal(t, want.again, reasked(err), "%v", err)
		assert.Equal(t, want.refuses, refusesNodeLocal(err), "%v", err)
	}
}
