package qosproxy

import (
	"iter"
	"strings"
	"time"

	qosproxyv1 "github.com/qosproxy/qosproxy/api/qosproxy/v1"
)

// Status says what became of one key.
type Status int

// The statuses of a key. Found and NotFound come from a replica; the others mean that the key
// was not answered.
const (
	// Found means that a replica returned at least one row.
	Found = Status(qosproxyv1.KeyStatus_KEY_STATUS_FOUND)
	// NotFound means that a replica answered and has no row for the key.
	NotFound = Status(qosproxyv1.KeyStatus_KEY_STATUS_NOT_FOUND)
	// TimedOut means that the lookup ended before any replica answered.
	TimedOut = Status(qosproxyv1.KeyStatus_KEY_STATUS_TIMED_OUT)
	// Unavailable means that no replica could be asked, or that too few replicas were alive
	// for the consistency level.
	Unavailable = Status(qosproxyv1.KeyStatus_KEY_STATUS_UNAVAILABLE)
	// Shed means that the proxy refused the key to protect itself or a host.
	Shed = Status(qosproxyv1.KeyStatus_KEY_STATUS_SHED)
	// TooLarge means that the rows exceed a limit on rows or bytes.
	TooLarge = Status(qosproxyv1.KeyStatus_KEY_STATUS_TOO_LARGE)
	// Failed means that every replica failed to read the key.
	Failed = Status(qosproxyv1.KeyStatus_KEY_STATUS_FAILED)
)

// String returns the status as the HTTP API writes it, such as TIMED_OUT.
func (s Status) String() string {
	return strings.TrimPrefix(qosproxyv1.KeyStatus(s).String(), "KEY_STATUS_")
}

// Answered reports whether a replica has answered the key.
func (s Status) Answered() bool { return s == Found || s == NotFound }

// Answer is the outcome of a lookup. It is immutable.
type Answer struct {
	proto   *qosproxyv1.BatchGetResponse
	keys    []Key
	columns *columns
}

func newAnswer(out *qosproxyv1.BatchGetResponse, keys []Key) *Answer {
	return &Answer{out, keys, newColumns(out.GetColumns())}
}

// Len returns the number of keys.
func (a *Answer) Len() int { return len(a.keys) }

// At returns the result of the key at position i of the lookup.
func (a *Answer) At(i int) Result {
	return Result{Index: i, Key: a.keys[i], proto: a.proto.GetResults()[i], columns: a.columns}
}

// All yields the position and result of every key, answered or not.
func (a *Answer) All() iter.Seq2[int, Result] {
	return func(yield func(int, Result) bool) {
		for i := range a.keys {
			if !yield(i, a.At(i)) {
				return
			}
		}
	}
}

// Err returns an *UnansweredError with the keys that were not answered, or nil if all were
// answered.
func (a *Answer) Err() error {
	var keys []*KeyError
	for _, r := range a.All() {
		if err := r.unanswered(); err != nil {
			keys = append(keys, err)
		}
	}
	if keys == nil {
		return nil
	}
	return &UnansweredError{keys, len(a.keys)}
}

// Unprocessed returns the positions of the keys for which another request may help.
func (a *Answer) Unprocessed() []int {
	positions := make([]int, len(a.proto.GetUnprocessedKeys()))
	for i, p := range a.proto.GetUnprocessedKeys() {
		positions[i] = int(p)
	}
	return positions
}

// Columns returns the columns that describe the cells of every row, in order.
func (a *Answer) Columns() []*qosproxyv1.Column { return a.columns.list }

// Elapsed returns the time that the proxy took.
func (a *Answer) Elapsed() time.Duration { return a.proto.GetStats().GetElapsed().AsDuration() }

// Proto returns the message of the answer, with counts and other fields that Answer has no
// method for. It must not be modified.
func (a *Answer) Proto() *qosproxyv1.BatchGetResponse { return a.proto }

// Result is the outcome of one key.
type Result struct {
	// Index is the position of the key in the lookup, and Key the key itself.
	Index int
	Key   Key

	proto   *qosproxyv1.KeyResult
	columns *columns
}

// Status returns the status of the key.
func (r Result) Status() Status { return Status(r.proto.GetStatus()) }

// Reason returns in one word why the key was not answered. It is ReasonNone if the key was
// answered, or if the proxy gave no reason.
func (r Result) Reason() Reason { return Reason(r.proto.GetReason()) }

// Err returns a *KeyError if the key was not answered, nil if it is found or not found.
func (r Result) Err() error {
	if err := r.unanswered(); err != nil {
		return err
	}
	return nil
}

func (r Result) unanswered() *KeyError {
	if r.Status().Answered() {
		return nil
	}
	return &KeyError{r.Index, r.Key, r.Status(), r.proto.GetError(), r.Reason()}
}

// Rows returns the rows of the key in the order of the lookup: none if the key is not found,
// and a *KeyError if it was not answered.
func (r Result) Rows() ([]Row, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	rows := make([]Row, len(r.proto.GetRows()))
	for i, row := range r.proto.GetRows() {
		rows[i] = Row{row.GetValues(), r.columns}
	}
	return rows, nil
}

// NextPageToken returns the token of the next page. It is empty if there is none, or if
// Lookup.Paging was not set.
func (r Result) NextPageToken() string { return r.proto.GetNextPageToken() }

// columns describe the rows of an answer.
type columns struct {
	list  []*qosproxyv1.Column
	named map[string]int
}

func newColumns(list []*qosproxyv1.Column) *columns {
	c := &columns{list, make(map[string]int, len(list))}
	for i, column := range list {
		c.named[column.GetName()] = i
	}
	return c
}
