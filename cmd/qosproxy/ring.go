package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qosproxy/qosproxy/internal/command"
	"github.com/qosproxy/qosproxy/internal/ring"
	"github.com/qosproxy/qosproxy/internal/suggest"
)

func newRing() *cobra.Command {
	var configFile, output string
	var ranges bool
	cmd := &cobra.Command{
		Use:   "ring [KEYSPACE]",
		Short: "Show who owns what",
		Long: `ring shows the hosts of the cluster and the share of the data that each holds: of a
keyspace, counted with its replicas, or of the ring alone. With --ranges it lists every
token range and its replicas in ring order.`,
		Example: `  qosproxy ring
  qosproxy ring shop --config qosproxy.yaml
  qosproxy ring shop --ranges -o json`,
		Args: command.Exactly(0, 1, "at most one KEYSPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OneOf(output, "table", "json"); err != nil {
				return err
			}
			if ranges && len(args) == 0 {
				return command.Usagef("--ranges needs a KEYSPACE: replicas are a matter of its replication")
			}
			cluster, err := openCluster(cmd.Context(), configFile)
			if err != nil {
				return err
			}
			defer cluster.Close()
			keyspace := ""
			if len(args) == 1 {
				keyspace = args[0]
			}
			report, err := newRingReport(cluster.Ring(), keyspace, ranges)
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd, report)
			}
			return report.print(cmd)
		},
	}
	command.ConfigFlag(cmd, &configFile)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output: table or json")
	cmd.Flags().BoolVar(&ranges, "ranges", false, "list every token range and its replicas")
	return cmd
}

// ringReport is the output of the command.
type ringReport struct {
	Keyspace string       `json:"keyspace,omitempty"`
	Hosts    []ringHost   `json:"hosts"`
	Balance  *ringBalance `json:"balance,omitempty"`
	Ranges   []ringRange  `json:"ranges,omitempty"`
}

// ringBalance is how evenly the data of a keyspace is spread within the local datacenter.
// Values are relative to the mean share of a host there.
type ringBalance struct {
	DC     string  `json:"dc"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	StdDev float64 `json:"stddev"`
}

// ringHost is one host and its share of the data, 0 to 1.
type ringHost struct {
	Host   string  `json:"host"`
	ID     string  `json:"id"`
	DC     string  `json:"dc"`
	Rack   string  `json:"rack"`
	Tokens int     `json:"tokens"`
	Share  float64 `json:"share"`
}

// ringRange is the range (Start, End] and its replicas in ring order.
type ringRange struct {
	Start    int64    `json:"start"`
	End      int64    `json:"end"`
	Replicas []string `json:"replicas"`
}

func newRingReport(r *ring.Ring, keyspace string, ranges bool) (*ringReport, error) {
	report := &ringReport{Keyspace: keyspace}
	share := r.Ownership()
	if keyspace != "" {
		placement, ok := r.Placement(keyspace)
		if !ok {
			return nil, fmt.Errorf("keyspace %s: %w%s", keyspace, r.PlacementError(keyspace), suggest.Hint(keyspace, r.Keyspaces()))
		}
		share = placement.Ownership()
		balance := placement.Balance(r.LocalDC())
		report.Balance = &ringBalance{DC: r.LocalDC(), Min: balance.Min, Max: balance.Max, StdDev: balance.StdDev}
		if ranges {
			for span := range placement.Ranges() {
				row := ringRange{Start: span.Start, End: span.End}
				for _, h := range span.Replicas {
					row.Replicas = append(row.Replicas, r.Hosts()[h].Addr)
				}
				report.Ranges = append(report.Ranges, row)
			}
		}
	}
	for i, h := range r.Hosts() {
		report.Hosts = append(report.Hosts, ringHost{Host: h.Addr, ID: h.ID, DC: h.DC, Rack: h.Rack, Tokens: len(h.Tokens), Share: share[i]})
	}
	return report, nil
}

// barWidth is the width of a full bar, in characters.
const barWidth = 40

func (r *ringReport) print(cmd *cobra.Command) error {
	w := newTable(cmd.OutOrStdout())
	most := 0.0
	for _, h := range r.Hosts {
		most = math.Max(most, h.Share)
	}
	fmt.Fprintln(w, "HOST\tDC\tRACK\tTOKENS\tSHARE\t")
	for _, h := range r.Hosts {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("█", int(math.Round(h.Share/most*barWidth)))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%5.1f %%\t%s\n", h.Host, h.DC, h.Rack, h.Tokens, h.Share*100, bar)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Balance == nil {
		fmt.Fprintln(cmd.OutOrStdout(), "\nShare of the token space. Name a KEYSPACE for the share of its data, replicas counted.")
		return nil
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\nShare of the data of %s, replicas counted. In %s least %.2f, most %.2f times the mean; standard deviation %.1f %%.\n",
		r.Keyspace, r.Balance.DC, r.Balance.Min, r.Balance.Max, r.Balance.StdDev*100)
	if len(r.Ranges) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nSTART (excluded)\tEND (included)\tREPLICAS")
	for _, s := range r.Ranges {
		fmt.Fprintf(w, "%d\t%d\t%s\n", s.Start, s.End, strings.Join(s.Replicas, ", "))
	}
	return w.Flush()
}
