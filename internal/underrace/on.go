//go:build race

package underrace

const enabled = true
