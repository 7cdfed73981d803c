package config

import "slices"

// Shadow says which live lookups the plain driver reads as well, to compare the answers.
type Shadow struct {
	// Sample is the share of the lookups, 0 to 1; 0 compares none.
	Sample Percent `yaml:"sample"`
	// Baseline is how the plain driver reads them.
	Baseline Baseline `yaml:"baseline"`
	// Concurrency is how many are compared at a time, 1 or more. Lookups beyond it are not
	// compared.
	Concurrency int `yaml:"concurrency"`
}

// Baseline is how the plain driver reads the keys of a lookup.
type Baseline string

// The baselines: one unpaged IN, or a read of each key at one of its replicas.
const (
	BaselineIn     Baseline = "in"
	BaselineSingle Baseline = "single"
)

func (v *validator) shadow(s *Shadow) {
	v.check(0 <= s.Sample && s.Sample <= 1, "shadow.sample", "%s is not a share of the lookups; use 0%% to 100%%", s.Sample)
	v.check(slices.Contains([]Baseline{BaselineIn, BaselineSingle}, s.Baseline), "shadow.baseline",
		"%q is not how a driver reads; use in or single", s.Baseline)
	v.check(s.Concurrency > 0, "shadow.concurrency", "%d is below 1; use a number such as 2", s.Concurrency)
}
