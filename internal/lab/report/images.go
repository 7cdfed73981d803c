package report

import (
	"fmt"
	"os"
	"path/filepath"
)

// Image is a chart drawn to a file.
type Image struct {
	// Chart is the name of the chart. Title is its title, for readers who cannot see the image.
	Chart string
	Title string
	// File is the path by which a Markdown file refers to it.
	File string
}

// WriteCharts draws every chart, the standard ones first, to an SVG file NAME-CHART.svg in dir,
// which it creates if needed. The images adapt to light and dark mode. It returns them in this
// order; File is without dir.
func (r *Report) WriteCharts(dir string) ([]Image, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write charts: %w", err)
	}
	p, err := newPainter()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var images []Image
	for _, c := range r.charts() {
		svg, err := p.svg(&c, r.targets())
		if err != nil {
			return nil, err
		}
		file := r.Name + "-" + c.Name + ".svg"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(svg+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("write charts: %w", err)
		}
		images = append(images, Image{Chart: c.Name, Title: c.Title, File: file})
	}
	return images, nil
}

// charts returns all charts, the standard ones first.
func (r *Report) charts() []Chart {
	var all []Chart
	for _, s := range r.standard() {
		all = append(all, s.Charts...)
	}
	return append(all, r.Charts...)
}
