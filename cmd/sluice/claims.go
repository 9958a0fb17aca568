package main

import (
	"slices"
	"time"

	"github.com/sluice-metrics/sluice/receiver/scrape"
	"github.com/sluice-metrics/sluice/replica/claim"
)

// claimedNodes are the nodes whose agents report to some replica, for package agents.
type claimedNodes struct{ *claim.Claims }

func agentClaim(node string) string { return "agent/" + node }

// Came implements agents.Nodes.
func (c claimedNodes) Came(node string) { c.Take(agentClaim(node)) }

// Left implements agents.Nodes.
func (c claimedNodes) Left(node string) { c.Release(agentClaim(node)) }

// Has implements agents.Nodes.
func (c claimedNodes) Has(node string) bool { return c.Known(agentClaim(node)) }

// scrapeShares are the claims of replicas, for package scrape.
type scrapeShares struct {
	*claim.Claims
	answers func() (bool, string)
	heard   func() []string // the live replicas
	first   func() bool
}

// scrapeShares returns nil without other replicas.
func (p *dataPath) scrapeShares() scrape.Shares {
	r := &p.replication
	if r.replica == nil {
		return nil
	}
	return scrapeShares{r.claims, r.replica.Answers, r.replica.Heard, p.merged.First}
}

// Take takes no node while a replica of an earlier version lives, which would scrape it too.
func (s scrapeShares) Take(share string) {
	silent := func(name string) bool { return !s.Speaks(name) }
	if share == scrape.RestShare || !slices.ContainsFunc(s.heard(), silent) {
		s.Claims.Take(share)
	}
}

// Of implements scrape.Shares.
func (s scrapeShares) Of(share string) (mine, free bool, since time.Time) {
	h := s.Claims.Of(share)
	return h.Mine, h.Holder == "", h.Since
}

// Ready implements scrape.Shares.
func (s scrapeShares) Ready() bool {
	ready, _ := s.answers()
	return ready
}

// First implements scrape.Shares.
func (s scrapeShares) First() bool { return s.first() }
