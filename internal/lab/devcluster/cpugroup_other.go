//go:build !linux

package devcluster

import "errors"

// cpuGroup is a CPU quota, which this system does not support.
type cpuGroup string

var errNoGroups = errors.New("limits of CPU and memory need Linux's control groups")

func newCPUGroup(string) (cpuGroup, error) { return "", errNoGroups }

func (cpuGroup) limit(int, float64, bool) error { return errNoGroups }

func (cpuGroup) remove() error { return nil }

func limitMemory(string, int, int64) (string, error) { return "", errNoGroups }

func removeGroup(string) error { return nil }
