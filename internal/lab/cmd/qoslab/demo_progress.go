package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/qosproxy/qosproxy/internal/lab/devcluster"
	"github.com/qosproxy/qosproxy/internal/terminal"
)

// progress shows what the demo is doing: the running step or a bar on a terminal, and a line for
// each finished step everywhere.
type progress struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	start    time.Time
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, terminal: terminal.Is(out), start: time.Now()}
}

// step shows a step that has begun.
func (p *progress) step(text string) {
	if p.terminal {
		p.clear()
		fmt.Fprint(p.out, "\r"+terminal.ClearLine+"… "+text)
	}
}

// done shows a finished step, with the time since the start.
func (p *progress) done(text string) {
	p.clear()
	if p.terminal {
		fmt.Fprint(p.out, "\r"+terminal.ClearLine)
	}
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), text)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// cluster shows the boot of a cluster.
func (p *progress) cluster(e devcluster.Event) {
	switch e.Step {
	case devcluster.StepNode:
		p.done(e.Detail)
	case devcluster.StepReady:
		p.done(fmt.Sprintf("the cluster of %d nodes is ready", e.Nodes))
	default:
		if e.Step == devcluster.StepJars && !p.terminal {
			p.done(e.Detail)
			return
		}
		p.step(e.Detail)
	}
}

// load shows how many of all rows are written.
func (p *progress) load(done, all int) {
	if !p.terminal {
		return
	}
	if p.bar == nil {
		fmt.Fprint(p.out, "\r"+terminal.ClearLine)
		p.bar = progressbar.NewOptions(all,
			progressbar.OptionSetWriter(p.out),
			progressbar.OptionSetDescription("loading sample data"),
			progressbar.OptionShowCount(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set(done)
}
