//go:build chaos

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// abuser describes what abusive peers do to a proxy. They run in a process of their own with a nice
// value, so that they take no CPU from load generator and proxy: real peers have their own
// machines.
type abuser struct {
	Address, Token                   string
	Slowloris, HalfOpen, SlowReaders int
	// Attack, when not nil, replaces all other abuse.
	Attack *Attack
}

// abused is the result: the connections that floods have used up, the half-open ones that are left,
// and the counts of an Attack.
type abused struct {
	Floods, HalfOpen            int
	Calls, Reset, Ended, Closed int64
	Sent, Received              int64 // bytes
}

// abuserVariable holds an abuser as JSON in a process that is to be one.
const abuserVariable = "QOSPROXY_CHAOS_ABUSER"

// floodPause is the time between two floods, each of which is as fast as it can be.
const floodPause = 250 * time.Millisecond

// run begins the abuse, writes a line, continues until its input ends, and writes the result as
// JSON.
func (a *abuser) run(in io.Reader, out io.Writer) error {
	if a.Attack != nil {
		return a.attack(in, out)
	}
	wanted := requestOf(0)
	for len(wanted.Keys) < 50 {
		wanted.Keys = append(wanted.Keys, textKey(fmt.Sprintf("id-%07d", len(wanted.Keys))))
	}
	request, err := message(wanted)
	if err != nil {
		return err
	}
	_, release, err := hold(a.Address, "PRI * HTTP", a.Slowloris)
	if err != nil {
		return err
	}
	defer release()
	time.Sleep(3 * time.Second)
	left, release, err := hold(a.Address, "", a.HalfOpen)
	if err != nil {
		return err
	}
	defer release()
	for range a.SlowReaders {
		if c, err := readSlowly(a.Address, a.Token, request); err == nil {
			defer c.Close()
		}
	}
	flooding, stop := context.WithCancel(context.Background())
	defer stop()
	var seen abused
	var floods sync.WaitGroup
	floods.Go(func() { seen.Floods = flood(flooding, a.Address, a.Token, request, floodPause) })
	_, _ = fmt.Fprintln(out)
	_, _ = io.Copy(io.Discard, in)
	stop()
	floods.Wait()
	seen.HalfOpen = left()
	return json.NewEncoder(out).Encode(seen)
}

// attack is run for an Attack.
func (a *abuser) attack(in io.Reader, out io.Writer) error {
	attacking, stop := context.WithCancel(context.Background())
	defer stop()
	var seen Attacked
	var all sync.WaitGroup
	var err error
	all.Go(func() { err = a.Attack.Run(attacking, &seen) })
	_, _ = fmt.Fprintln(out)
	_, _ = io.Copy(io.Discard, in)
	stop()
	all.Wait()
	return errors.Join(err, json.NewEncoder(out).Encode(abused{
		Calls: seen.Calls.Load(), Reset: seen.Reset.Load(), Ended: seen.Ended.Load(), Closed: seen.Closed.Load(),
		Sent: seen.Sent.Load(), Received: seen.Received.Load(),
	}))
}

// peers is a running abuser.
type peers struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startPeers starts an abuser and returns when all its abuse has begun.
func startPeers(ctx context.Context, a *abuser) (*peers, error) {
	what, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", os.Args[0])
	cmd.Env = append(os.Environ(), abuserVariable+"="+string(what))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &peers{cmd, in, bufio.NewReader(out)}
	if _, err := p.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("abusive peers: %w", err), cmd.Wait())
	}
	return p, nil
}

// stop ends the abuse and returns the result.
func (p *peers) stop() (*abused, error) {
	var seen abused
	err := p.in.Close()
	err = errors.Join(err, json.NewDecoder(p.out).Decode(&seen), p.cmd.Wait())
	return &seen, err
}

// kill kills the process if stop has not ended it.
func (p *peers) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// beAbuser is the main function of a process that is an abuser. It returns the exit code.
func beAbuser(what string) int {
	var a abuser
	err := json.Unmarshal([]byte(what), &a)
	if err == nil {
		err = a.run(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: abusive peers:", err)
		return 1
	}
	return 0
}
