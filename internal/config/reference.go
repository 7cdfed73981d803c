package config

import _ "embed" // the reference is part of the binary

//go:embed reference.yaml
var reference string

// Reference returns a configuration file in which every key has its default and
// a comment, to copy and edit.
func Reference() string { return reference }
