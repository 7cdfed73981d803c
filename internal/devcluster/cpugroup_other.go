//go:build !linux

package devcluster

import "errors"

// cpuGroup is a CPU quota, which this system does not have.
type cpuGroup string

var errNoCPUGroup = errors.New("CPU limits need Linux's control groups")

func newCPUGroup(string) (cpuGroup, error) { return "", errNoCPUGroup }

func (cpuGroup) limit(int, float64) error { return errNoCPUGroup }

func (cpuGroup) remove() error { return nil }
