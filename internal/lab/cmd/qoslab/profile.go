package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
)

func newProfile() *cobra.Command {
	var rounds int
	var length, warmup time.Duration
	var proxy string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "profile FILE",
		Short: "Record where the CPU time of the proxy goes",
		Long: `profile boots a cluster of six nodes, loads a proxy by gRPC and HTTP with lookups of
three tables, and writes where the proxy's CPU time goes. "go tool pprof" shows the file,
and "go build -pgo FILE" optimizes for it what is run most often.`,
		Example: "  qoslab profile cpu.pprof\n  qoslab profile cpu.pprof --rounds 1 --length 10s --warmup 20s",
		Args:    command.Exactly(1, 1, "the file to write"),
		RunE: func(cmd *cobra.Command, args []string) (failed error) {
			if rounds < 0 || length < 0 || warmup < 0 {
				return command.Usagef("--rounds, --length and --warmup must not be below 0")
			}
			show := newBenchProgress(os.Stderr)
			lab, err := newLab(show, proxy, seed)
			if err != nil {
				return err
			}
			defer func() { failed = errors.Join(failed, lab.Close()) }()
			lab.Rounds, lab.Length, lab.Warmup = rounds, length, warmup
			profile, err := lab.CPUProfile(cmd.Context())
			show.clear()
			if err != nil {
				return err
			}
			out, err := os.Create(args[0])
			if err != nil {
				return err
			}
			return errors.Join(profile.Write(out), out.Close())
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", 0, "rounds of each way to ask (default: 3)")
	cmd.Flags().DurationVar(&length, "length", 0, "length of a round (default: 5s)")
	cmd.Flags().DurationVar(&warmup, "warmup", 0, "longest warm-up of each way to ask (default: 90s)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of data and draws")
	proxyFlag(cmd.Flags(), &proxy)
	return cmd
}
