//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	short  = flag.Bool("chaos.short", false, "shorter faults, and, unless scenarios are named, only those that are quick")
	folder = flag.String("chaos.dir", "", "the folder for one JSON file of each scenario; empty for none")
	only   = flag.String("chaos.scenarios", "", "the scenarios to run, as a regular expression; empty for all")
)

// scenario is a promise and how it is put to the test.
type scenario struct {
	// name is short and fit for a file; fault and promise are a line of the table.
	name, fault, promise string
	// quick scenarios are part of the short form: they take a minute at the most, and what
	// they promise hangs on no share of the CPUs. Network ones need a network of their own.
	quick, network bool
	// measure makes the fault and says what was seen, with the safeguard on or off.
	measure func(a *arena, safe bool) outcome
	// without says what is off in the control; empty where there is nothing to turn
	// off, and then why must say why the measurement can fail all the same.
	without, why string
}

// scenarios are the scoreboard, in its order.
var scenarios = slices.Concat(
	[]scenario{frozen, slow, killed}, blackHoles,
	[]scenario{loss, delayOne, delayAll, rollingRestart, membership, allDown, oneReplica, quorumLost, thawUnderLoad, hedgeStorm, overload,
		priorities, greedyClient, schemaChanges, tombstones, prepared, memory, cancelled, turns, reloads, abuse},
)

// outcome is what one measurement has seen.
type outcome = Outcome

// note adds a figure.
func (o *Outcome) note(name, format string, args ...any) {
	o.Figures = append(o.Figures, [2]string{name, fmt.Sprintf(format, args...)})
}

// require adds a promise that was not kept.
func (o *Outcome) require(kept bool, format string, args ...any) {
	if !kept {
		o.Broken = append(o.Broken, fmt.Sprintf(format, args...))
	}
}

// tries is how often a scenario is measured at most. Proxy, nodes and load share a
// machine, whose hiccups are not the proxy's: one measurement has to keep the
// promise. A control has as many tries to break it.
const tries = 3

func TestEveryScenarioHasItsPlaceOnTheBoard(t *testing.T) {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	assert.Equal(t, order, names)
}

func TestChaos(t *testing.T) {
	wanted, err := regexp.Compile(*only)
	require.NoError(t, err)
	a := newArena(t)
	var verdicts []Verdict
	for _, s := range scenarios {
		if *short && *only == "" && !s.quick || !wanted.MatchString(s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if s.network && !ownNetwork {
				t.Skip("needs root, for a network namespace of its own")
			}
			a.t = t
			v := s.run(a)
			v.Short = *short
			verdicts = append(verdicts, v)
			if *folder != "" {
				require.NoError(t, v.Save(*folder))
			}
			assert.True(t, v.Kept, "%s: %s", s.fault, s.promise)
		})
	}
	t.Logf("\n%s", Table(verdicts))
}

// run measures a scenario and its control.
func (s *scenario) run(a *arena) Verdict {
	v := Verdict{Scenario: s.name, Fault: s.fault, Promise: s.promise, Without: s.without, Why: s.why, Start: time.Now()}
	for range tries {
		o := s.measure(a, true)
		v.Tries = append(v.Tries, o)
		a.t.Logf("%s", &o)
		if v.Kept = len(o.Broken) == 0; v.Kept {
			break
		}
		a.t.Logf("not kept: %s", strings.Join(o.Broken, "; "))
	}
	if s.without != "" {
		for range tries {
			o := s.measure(a, false)
			v.Control = &o
			a.t.Logf("control, %s: %s", s.without, &o)
			if len(o.Broken) > 0 {
				break
			}
		}
		assert.NotEmpty(a.t, v.Control.Broken, "with the safeguard off (%s) the promise is kept as well: the scenario proves nothing", s.without)
	}
	v.Seconds = time.Since(v.Start).Seconds()
	return v
}
