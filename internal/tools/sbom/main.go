// Command sbom writes the CycloneDX bill of materials of a Go binary. It lists the modules
// that Go recorded in the binary, and so only what was built in.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	out := flag.String("out", "", "file to write (default: stdout)")
	version := flag.String("version", "", "version of the program (default: the one in the binary)")
	flag.Parse()
	if err := run(flag.Args(), *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, version, out string) error {
	if len(args) != 1 {
		return errors.New("usage: sbom [-version VERSION] [-out FILE] BINARY")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", args[0], err)
	}
	if out == "" {
		return write(os.Stdout, bill(info, version))
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(write(file, bill(info, version)), file.Close())
}

func write(w io.Writer, bom *cyclonedx.BOM) error {
	// The version of the format that scanners read.
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
}

// bill returns a bill without time and serial number, so that a binary always has the same
// one.
func bill(info *buildinfo.BuildInfo, version string) *cyclonedx.BOM {
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, cmp.Or(version, info.Main.Version))
	settings := make([]cyclonedx.Property, 0, len(info.Settings))
	for _, s := range info.Settings {
		settings = append(settings, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &settings

	components := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		components = append(components, component(cyclonedx.ComponentTypeLibrary, used(module).Path, used(module).Version))
	}
	needed := make([]string, 0, len(components))
	for _, c := range components {
		needed = append(needed, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needed}}
	return bom
}

// used returns the module that was built in: the replacement, unless that is a folder of
// this repository, as for the module api. The path of a folder says nothing to a scanner.
func used(m *debug.Module) *debug.Module {
	if m.Replace != nil && !strings.HasPrefix(m.Replace.Path, ".") {
		return m.Replace
	}
	return m
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
