package console

import (
	"encoding/json"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
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

// Lengths in characters: words that are longer than shortWord may be broken behind punctuation, and
// longestPiece is the longest piece that is not broken at all. A column of a table is as wide as its
// longest piece, at least.
const (
	shortWord    = 20
	longestPiece = 32
)

// breakable is a text from outside as markup: visible, escaped, and with places at which a long word
// may be broken (<wbr>). Browsers break a word at any letter otherwise, as in "StatefulSet/w eb".
func breakable(text string) template.HTML {
	var out strings.Builder
	for i, word := range strings.Split(metric.Visible(text), " ") {
		if i > 0 {
			out.WriteByte(' ')
		}
		if utf8.RuneCountInString(word) <= shortWord {
			out.WriteString(template.HTMLEscapeString(word))
			continue
		}
		writeBreakable(&out, word)
	}
	return template.HTML(out.String()) //nolint:gosec // each piece is escaped
}

func writeBreakable(out *strings.Builder, word string) {
	begin, length := 0, 0
	for at, r := range word {
		_, size := utf8.DecodeRuneInString(word[at:])
		end := at + size
		length++
		if end == len(word) || !strings.ContainsRune("/-_.,:=;|", r) && length < longestPiece {
			continue
		}
		out.WriteString(template.HTMLEscapeString(word[begin:end]) + "<wbr>")
		begin, length = end, 0
	}
	out.WriteString(template.HTMLEscapeString(word[begin:]))
}
