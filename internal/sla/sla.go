// Package sla decides which lookups count against the SLO of their table: the share of
// lookups that must end within a target. It keeps the lookups of the last minutes, and
// returns their percentiles, ratio and burn rate.
package sla

import (
	"slices"
	"time"

	"github.com/qosproxy/qosproxy/internal/lookup"
)

// Target is the SLO of one table.
type Target struct {
	// Percentile is the share of lookups, in percent, that must end within Target; above
	// 0 and below 100.
	Percentile float64
	// Target is the latency within which a lookup is to be answered.
	Target time.Duration
	// OperateAt is the latency at which the percentile is meant to be in normal
	// operation; 0 means half of Target.
	OperateAt time.Duration
}

// Lookup is one finished lookup.
type Lookup struct {
	// Table is keyspace.table. A table without a target, or none, is counted
	// under the name of UnknownTable.
	Table string
	// Keys is the number of keys asked.
	Keys int
	// Code is how the lookup ended, one of Codes; another counts as INTERNAL.
	Code lookup.Code
	// Duration is the time from the arrival of the request to its answer.
	Duration time.Duration
	// Groups is the number of groups of the plan; 0 if it was refused unplanned.
	Groups int
	// Coalesced is the number of keys that reads of other lookups answered.
	Coalesced int
	// Refused is the number of keys that the proxy has shed by its own decision, without
	// asking for them; Statuses counts them under SHED.
	Refused int
	// Statuses is the number of keys by status.
	Statuses Counts
	// TraceID is shown as the exemplar of the lookup; empty for none.
	TraceID string
}

// UnknownTable is the table label of lookups that name no table with a target.
const UnknownTable = "unknown"

// Counts are numbers of keys by status, in the order of StatusNames.
type Counts [7]int

// StatusNames are the statuses of keys, in the order of Counts.
func StatusNames() []string { return slices.Clone(statusNames[:]) }

var statusNames = [len(Counts{})]string{
	"FOUND", "NOT_FOUND", "TIMED_OUT", "UNAVAILABLE", "SHED", "TOO_LARGE", "FAILED",
}

// Codes returns the codes with which a lookup can end.
func Codes() []lookup.Code {
	names := make([]lookup.Code, len(codes))
	for i, c := range codes {
		names[i] = c.name
	}
	return names
}

// verdict is what the end of a lookup means for the SLO.
type verdict uint8

const (
	// kept meets the SLO within the target; the duration is a latency.
	kept verdict = iota
	// late misses the SLO: the time was over before all keys were answered. The duration
	// is a latency.
	late
	// broken misses the SLO however soon it ended. The duration is no latency, or a proxy
	// that fails at once would look fast.
	broken
	// faulty is the caller's fault or a refusal, and counts neither way.
	faulty
	// abandoned is a caller that hung up. It does not count within the target, but misses
	// the SLO beyond it, which may well be why the caller hung up.
	abandoned
)

var codes = [...]struct {
	name    lookup.Code
	verdict verdict
}{
	{lookup.CodeOK, kept},
	{lookup.CodePartial, late},
	{lookup.CodeDeadlineExceeded, late},
	{lookup.CodeUnavailable, broken},
	{lookup.CodeResourceExhausted, broken},
	{lookup.CodeInternal, broken},
	{lookup.CodeInvalidArgument, faulty},
	{lookup.CodeNotFound, faulty},
	{lookup.CodePermissionDenied, faulty},
	{lookup.CodeCancelled, abandoned},
	{lookup.CodePartialOK, kept},
	{lookup.CodeFailedPrecondition, faulty},
}

// indexOfInternal is the position in codes of INTERNAL, as which unknown codes count.
const indexOfInternal = 5

// codeIndex returns the position of a code in codes.
func codeIndex(name lookup.Code) int {
	for i := range codes {
		if codes[i].name == name {
			return i
		}
	}
	return indexOfInternal
}

// verdictOf returns what the end of a lookup means. Keys that the proxy refused count
// neither way: if shedding missed the SLO, it would be a reason to shed.
func (l *Lookup) verdictOf(code int) verdict {
	unanswered := 0
	for _, n := range l.Statuses[2:] {
		unanswered += n
	}
	switch {
	case l.Refused == 0 || l.Refused < unanswered:
		return codes[code].verdict
	case l.Refused >= l.Keys:
		return faulty
	case codes[code].verdict == late:
		return kept
	}
	return codes[code].verdict
}

// judge returns whether a lookup counts, whether it met the SLO, and whether its duration
// is a latency.
func judge(v verdict, d, target time.Duration) (counts, good, latency bool) {
	switch v {
	case kept:
		return true, d <= target, true
	case late:
		return true, false, true
	case broken:
		return true, false, false
	case abandoned:
		return d > target, false, d > target
	default:
		return false, false, false
	}
}

// keysLabels are the classes of lookups by number of keys, with the most keys of
// each.
var keysLabels = [...]struct {
	name string
	most int
}{{"1", 1}, {"2-10", 10}, {"11-50", 50}, {"51-100", 100}, {"101+", int(^uint(0) >> 1)}}

// keysIndex returns the position in keysLabels of a number of keys.
func keysIndex(keys int) int {
	i := 0
	for keys > keysLabels[i].most {
		i++
	}
	return i
}
