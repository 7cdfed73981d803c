package ring

import "math"

// Ownership returns the share of the token space that each host owns, by
// HostIndex, regardless of keyspaces. The shares sum to 1.
func (r *Ring) Ownership() []float64 {
	shares := make([]float64, len(r.hosts))
	for i, h := range r.table.owners {
		shares[h] += r.table.share(i)
	}
	return shares
}

// Ownership returns the share of the data that each host holds as a replica, by
// HostIndex: 1 is all of it. The shares sum to the number of replicas; nodetool
// calls them effective ownership.
func (p *Placement) Ownership() []float64 {
	shares := make([]float64, len(p.hosts))
	for i, s := range p.all {
		share := p.table.share(i)
		for _, h := range p.set(s) {
			shares[h] += share
		}
	}
	return shares
}

// Primary returns the share of the data of which each host is the first replica,
// by HostIndex. The shares sum to 1.
func (p *Placement) Primary() []float64 {
	shares := make([]float64, len(p.hosts))
	for i, s := range p.all {
		shares[p.sets[s.from]] += p.table.share(i)
	}
	return shares
}

// Balance is how evenly data is spread over hosts, relative to their mean: 1 is
// the even share, 1.25 is 25 % more. The zero Balance means no data.
type Balance struct {
	// Min and Max are the smallest and the largest share.
	Min, Max float64
	// StdDev is the population standard deviation of the shares.
	StdDev float64
}

// Balance returns how evenly the replicas within a datacenter are spread over its
// hosts that own tokens. An empty dc means the whole cluster.
func (p *Placement) Balance(dc string) Balance {
	var shares []float64
	for i, share := range p.Ownership() {
		if h := p.hosts[i]; len(h.Tokens) > 0 && (dc == "" || h.DC == dc) {
			shares = append(shares, share)
		}
	}
	return balance(shares)
}

// balance returns the Balance of shares.
func balance(shares []float64) Balance {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	if sum == 0 {
		return Balance{}
	}
	mean := sum / float64(len(shares))
	b, squares := Balance{Min: math.Inf(1)}, 0.0
	for _, s := range shares {
		s /= mean
		b.Min, b.Max = min(b.Min, s), max(b.Max, s)
		squares += (s - 1) * (s - 1)
	}
	b.StdDev = math.Sqrt(squares / float64(len(shares)))
	return b
}
