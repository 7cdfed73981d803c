// Package profiles holds the profiles that come with qoslab: schema, data and mix of
// lookups that a measurement uses.
package profiles

import "embed"

// Files are the YAML files of this folder.
//
//go:embed *.yaml
var Files embed.FS
