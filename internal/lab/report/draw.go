package report

import (
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"modernc.org/quickjs"
)

// Apache ECharts draws the charts of the page and, run by QuickJS, the images. echarts.sh downloads
// it. It is compressed to a third of its size.
var (
	//go:embed web/echarts.min.js.gz
	echartsPacked string
	//go:embed web/charts.js
	chartsScript string
)

// echarts is the unpacked script.
var echarts = sync.OnceValues(func() (string, error) {
	packed, err := gzip.NewReader(strings.NewReader(echartsPacked))
	if err != nil {
		return "", fmt.Errorf("unpack ECharts: %w", err)
	}
	script, err := io.ReadAll(packed)
	if err != nil {
		return "", fmt.Errorf("unpack ECharts: %w", err)
	}
	return string(script), nil
})

// imageWidth is the width of an image in pixels, about that of a README.
const imageWidth = 820

// painter draws charts as SVG.
type painter struct{ vm *quickjs.VM }

// newPainter starts a JavaScript engine, which Close ends.
func newPainter() (*painter, error) {
	script, err := echarts()
	if err != nil {
		return nil, err
	}
	vm, err := quickjs.NewVM()
	if err != nil {
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	p := &painter{vm: vm}
	// ECharts sets timers for animations, which an image does not have.
	const browser = "var self = globalThis; globalThis.setTimeout = () => 0; globalThis.clearTimeout = () => {};"
	const draw = "globalThis.draw = (chart, targets, width) => qosproxyCharts.svg(JSON.parse(chart), JSON.parse(targets), width);"
	for _, s := range []string{browser, script, chartsScript + draw} {
		if _, err := vm.Eval(s, quickjs.EvalGlobal); err != nil {
			p.Close()
			return nil, fmt.Errorf("load ECharts: %w", err)
		}
	}
	return p, nil
}

// Close frees the engine. Its error is ignored, because the drawings are done.
func (p *painter) Close() { _ = p.vm.Close() }

// svg draws a chart. targets are those of the whole report, so that each has one colour in all
// charts.
func (p *painter) svg(c *Chart, targets []string) (string, error) {
	chart, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("draw chart %s: %w", c.Name, err)
	}
	names, err := json.Marshal(targets)
	if err != nil {
		return "", fmt.Errorf("draw chart %s: %w", c.Name, err)
	}
	drawn, err := p.vm.Call("draw", string(chart), string(names), imageWidth)
	if err != nil {
		return "", fmt.Errorf("draw chart %s: %w", c.Name, err)
	}
	svg, ok := drawn.(string)
	if !ok {
		return "", fmt.Errorf("draw chart %s: got %T, not a drawing", c.Name, drawn)
	}
	return svg, nil
}
