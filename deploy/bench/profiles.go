// Package bench holds the profiles that come with qosproxy bench.
package bench

import "embed"

// Profiles are the YAML files of this folder.
//
//go:embed *.yaml
var Profiles embed.FS
