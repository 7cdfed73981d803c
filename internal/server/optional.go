package server

import (
	"encoding/json"
	"fmt"

	"github.com/qosproxy/qosproxy/internal/lookup"
	"github.com/qosproxy/qosproxy/internal/partition"
	"github.com/qosproxy/qosproxy/internal/schema"
)

// Both APIs name optional keys as they name unprocessed ones: gRPC by position,
// JSON by the keys themselves.

// optionalPositions returns what marks the keys at some positions, for gRPC.
func optionalPositions(positions []int32) func(*schema.Table, []partition.Key) ([]bool, error) {
	if len(positions) == 0 {
		return nil
	}
	return func(_ *schema.Table, keys []partition.Key) ([]bool, error) {
		marks := make([]bool, len(keys))
		for n, i := range positions {
			if i < 0 || int(i) >= len(keys) {
				return nil, lookup.Invalid(optionalField(n), "%d is not the position of a key; there are %d, from 0", i, len(keys))
			}
			marks[i] = true
		}
		return marks, nil
	}
}

// optionalJSON returns what marks every occurrence of some keys, for JSON.
func optionalJSON(array json.RawMessage) func(*schema.Table, []partition.Key) ([]bool, error) {
	count := countArray(array)
	if count == 0 {
		return nil
	}
	return func(t *schema.Table, keys []partition.Key) ([]bool, error) {
		if count > len(keys) {
			return nil, lookup.Invalid("optional_keys", "%d are more than the %d keys", count, len(keys))
		}
		optional := splitArray(array)
		at := make(map[partition.ID][]int, len(keys))
		for i, k := range keys {
			at[k.ID()] = append(at[k.ID()], i)
		}
		marks := make([]bool, len(keys))
		encode := jsonKeys(t, optional)
		for n := range optional {
			k, err := encode(n)
			if err != nil {
				return nil, lookup.Invalid(optionalField(n), "%s", err)
			}
			positions := at[k.ID()]
			if len(positions) == 0 {
				return nil, lookup.Invalid(optionalField(n), "it is not among keys; list it there, too")
			}
			for _, i := range positions {
				marks[i] = true
			}
		}
		return marks, nil
	}
}

func optionalField(n int) string { return fmt.Sprintf("optional_keys[%d]", n) }
