package config

import _ "embed" // the reference is part of the binary

//go:embed reference.yaml
var reference string

// Reference returns a configuration file with every key at its default and a
// comment, as a start for one's own.
func Reference() string { return reference }
