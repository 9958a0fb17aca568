package inspect

import (
	"strconv"
	"strings"
	"time"
)

// Target is an endpoint that a pod announces, or the fault of a pod's announcement.
type Target struct {
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`
	Endpoint  string   `json:"endpoint,omitempty"` // ":8000/metrics"
	Names     []string `json:"names,omitempty"`
	// Agent is the node whose agent scrapes; empty: the replica itself.
	Agent string `json:"agent,omitempty"`
	// Interval is the time between two scrapes, in seconds.
	Interval float64 `json:"interval,omitempty"`
	// State is one of TargetStates. Result is that of the last scrape, as in the label "result" of
	// sluice_scrapes_total.
	State  string `json:"state"`
	Result string `json:"result,omitempty"`
	// Error says what went wrong last; of a target that is up, which samples were rejected.
	Error       string    `json:"error,omitempty"`
	LastScrape  time.Time `json:"lastScrape,omitzero"`
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	// Missing are names that the last page did not have.
	Missing []string `json:"missing,omitempty"`
	// Seconds is how long the last scrape took. Samples and Bytes are those of the last page.
	Seconds float64 `json:"seconds,omitempty"`
	Samples int64   `json:"samples,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
}

// States of a target.
const (
	TargetUp        = "up"
	TargetFailing   = "failing"
	TargetWaiting   = "waiting"   // not scraped yet
	TargetElsewhere = "elsewhere" // another replica scrapes
	TargetSurplus   = "surplus"   // of more pods than a server scrapes
	TargetInvalid   = "invalid"   // the announcement has a fault
)

// TargetStates are all states.
var TargetStates = []string{TargetUp, TargetFailing, TargetWaiting, TargetElsewhere, TargetSurplus, TargetInvalid}

// Meta implements Document.
func (t *Target) Meta() Meta { return Meta{t.Pod, t.Namespace} }

// Fault implements Document.
func (t *Target) Fault() string {
	switch t.State {
	case TargetFailing, TargetInvalid, TargetSurplus:
		return strings.TrimSpace("pod "+t.Pod+" "+t.Endpoint) + ": " + t.Error
	}
	return ""
}

// Cells implements Document.
func (t *Target) Cells(now time.Time) []string {
	success := none
	if !t.LastSuccess.IsZero() {
		success = ago(now, t.LastSuccess)
	}
	return []string{t.Pod, orNone(t.Endpoint), orNone(strings.Join(t.Names, ",")), t.State, success, orNone(t.Error),
		orNone(strconv.FormatFloat(t.Interval, 'f', -1, 64) + "s"), strconv.FormatInt(t.Samples, 10),
		strconv.FormatInt(t.Bytes, 10), orNone(strings.Join(t.Missing, ",")), orNone(t.Agent)}
}

// Key is the position in the list.
func (t *Target) Key() Key { return Key{t.Namespace, t.Pod, t.Endpoint, strings.Join(t.Names, " ")} }
