package console

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// plot is a figure of a page: some rows of a subject over the last ten minutes.
type plot struct {
	ID     string // in the page
	of     subject
	rows   []string
	Labels []string // of the rows, for people
	// Target is a constant to compare with; NaN: none.
	Target float64
	// Stepped is set for whole numbers that jump.
	Stepped bool
}

// HasTarget reports whether there is a constant to compare with.
func (p *plot) HasTarget() bool { return !math.IsNaN(p.Target) }

// numbers are values in JSON, where a missing one is null.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (n numbers) MarshalJSON() ([]byte, error) {
	all := make([]*float64, len(n))
	for i := range n {
		if !math.IsNaN(n[i]) && !math.IsInf(n[i], 0) {
			all[i] = &n[i]
		}
	}
	return json.Marshal(all)
}

// plotted is a message of a stream: values of a plot up to a Unix second.
type plotted struct {
	ID   string    `json:"id"`
	Last int64     `json:"last"`
	Rows []numbers `json:"rows"`
}

// values returns the last seconds of a plot; false: nothing is recorded yet.
func (p *plot) values(h *history, seconds int) (m plotted, ok bool) {
	last, all := h.read(p.of, p.rows, seconds)
	m = plotted{ID: p.ID, Last: last, Rows: make([]numbers, len(all))}
	for i := range all {
		m.Rows[i] = all[i]
	}
	return m, last != 0
}

// seriesID names a series within its metric: object and labels.
func seriesID(s *inspect.Series) string {
	id := s.Object.Name
	if id == "" && len(s.Labels) == 0 {
		return "value"
	}
	if len(s.Labels) > 0 {
		id = strings.TrimSpace(id + " " + labelText(s.Labels))
	}
	return id
}

// labelText prints labels as kubectl does: sorted, "a=1,b=2".
func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
