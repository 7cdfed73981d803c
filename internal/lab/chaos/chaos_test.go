//go:build chaos

package chaos

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	short  = flag.Bool("chaos.short", false, "shorter faults, and, unless scenarios are named, only those that are quick")
	folder = flag.String("chaos.dir", "", "the folder for one JSON file of each scenario; empty for none")
	only   = flag.String("chaos.scenarios", "", "the scenarios to run, as a regular expression; empty for all")
	times  = flag.Int("chaos.tries", 3, "how often each scenario is measured; all tries count")
	resume = flag.Bool("chaos.resume", false, "leave out scenarios whose verdict is in the folder")
	budget = flag.Duration("chaos.budget", 0, "begin no further scenario after this time, such as 75m; 0 for no end")
)

// scenario is a promise and the way it is tested.
type scenario struct {
	// name is short and fit for a file name. fault, promise and rely are cells of the scoreboard: what
	// is done, what must hold meanwhile, and what a user may rely on.
	name, fault, promise, rely string
	// quick is the number of tries in the short form: three if a try takes up to ten seconds,
	// otherwise one. 0 leaves the scenario out, because its promise depends on how the CPUs are
	// shared, or another scenario shows much the same. Network scenarios need a network of their own.
	quick   int
	network bool
	// static turns dynamic_snitch off on the nodes, so that each replica answers by itself.
	static bool
	// measure makes the fault once, with the safeguard on or off, and returns what was seen.
	measure func(a *arena, safe bool) *Outcome
	// judge checks the promise against the sum of all tries.
	judge func(o *Outcome) []Check
	// without names what is off in the control. If it is empty, because nothing can be turned off, why
	// says what else shows that the measurement can fail.
	without, why string
}

// scenarios are all scenarios, in the order of the scoreboard.
var scenarios = slices.Concat(
	[]scenario{frozen, slow}, blackHoles,
	[]scenario{loss, delayOne, delayAll, killed, rollingRestart, membership, allDown, oneReplica, quorumLost},
	byReplicas,
	[]scenario{thawUnderLoad, hedgeStorm, overload,
		priorities, greedyClient, noHarm, schemaChanges, tombstones, prepared, memory, floodRequests, floodAnswers, slowReading, cancelled, turns, reloads, abuse},
)

func TestEveryScenarioHasItsPlaceOnTheBoard(t *testing.T) {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
		assert.NotEmpty(t, s.rely, s.name)
		assert.NotEqual(t, s.without == "", s.why == "", s.name)
	}
	assert.Equal(t, order, names)
}

func TestChaos(t *testing.T) {
	begin := time.Now()
	wanted, err := regexp.Compile(*only)
	require.NoError(t, err)
	a := newArena(t)
	t.Logf("the cluster is booted, loaded and warm after %.0f s", time.Since(begin).Seconds())
	var verdicts []Verdict
	for _, s := range scenarios {
		if *short && *only == "" && s.quick == 0 || !wanted.MatchString(s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.skip(t, begin)
			a.t = t
			a.snitch(s.static)
			v := s.run(a)
			verdicts = append(verdicts, v)
			if *folder != "" {
				require.NoError(t, v.Save(*folder))
			}
			t.Logf("%s took %.0f s, %.0f s since the start", s.name, v.Seconds, time.Since(begin).Seconds())
			assert.True(t, v.Kept, "%s: %s: %s", s.fault, s.promise, v.NotKept())
			assert.True(t, v.Proven(), "without the safeguard (%s) the promise is not broken tenfold: the scenario proves nothing: %s", s.without, v.Control)
		})
	}
	t.Logf("%.0f s in all\n%s", time.Since(begin).Seconds(), Board(verdicts))
}

// skip skips a scenario that cannot run here, has run already, or begins too late.
func (s *scenario) skip(t *testing.T, begin time.Time) {
	t.Helper()
	if s.network && !ownNetwork {
		t.Skip("needs root, for a network namespace of its own")
	}
	if *budget > 0 && time.Since(begin) > *budget {
		t.Skipf("the budget of %s is spent; run the rest with -chaos.resume", *budget)
	}
	if *resume && *folder != "" {
		if _, err := os.Stat(filepath.Join(*folder, s.name+".json")); !errors.Is(err, fs.ErrNotExist) {
			t.Skip("has a verdict")
		}
	}
}

// run measures a scenario several times, and its control once.
func (s *scenario) run(a *arena) Verdict {
	v := Verdict{Scenario: s.name, Fault: s.fault, Promise: s.promise, Rely: s.rely, Without: s.without, Why: s.why, Short: *short, Start: time.Now()}
	tries := *times
	if *short && s.quick > 0 {
		tries = min(tries, s.quick)
	}
	for n := range tries {
		began := time.Now()
		o := s.measure(a, true)
		v.Tries = append(v.Tries, o)
		a.t.Logf("try %d, %.0f s: %s", n+1, time.Since(began).Seconds(), o)
		for _, l := range o.Loads {
			if len(l.FailedAt) > 0 {
				a.t.Logf("%s: lookups failed at %.1f s; the load generator got no CPU at %v", l.Name, l.FailedAt, l.Stalls)
			}
		}
	}
	if s.without != "" {
		began := time.Now()
		v.Control = s.measure(a, false)
		a.t.Logf("control, %.0f s, %s: %s", time.Since(began).Seconds(), s.without, v.Control)
	}
	v.Judge(s.judge)
	v.Seconds = time.Since(v.Start).Seconds()
	a.t.Logf("all tries: %s", v.Sum)
	if !v.Kept {
		a.t.Logf("not kept: %s", v.NotKept())
	}
	if v.Control != nil {
		a.t.Logf("the control: %s", v.control())
	}
	return v
}
