// Package profiles holds the profiles that are part of qoslab: schema, data and mix of lookups of a
// benchmark.
package profiles

import "embed"

// Files are the YAML files of this folder.
//
//go:embed *.yaml
var Files embed.FS
