package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// plot is a figure of a page: some rows of a subject over the last minutes.
type plot struct {
	ID     string // in the page; another choice of rows has another ID
	of     subject
	rows   []string
	Labels []string // of the rows, for people
	// Minutes is the length; 0: ten. Beyond ten the values are ten seconds apart.
	Minutes int
	// Target is a constant to compare with; NaN: none.
	Target float64
	// Stepped is set for whole numbers that jump.
	Stepped bool
}

// HasTarget reports whether there is a constant to compare with.
func (p *plot) HasTarget() bool { return !math.IsNaN(p.Target) }

// plotID names a plot by its choice, so that a page which chooses anew draws another plot.
func plotID(p *plot) string {
	sum := sha256.Sum256(fmt.Append(nil, p.of, p.rows, p.Minutes))
	return "series-" + base64.RawURLEncoding.EncodeToString(sum[:6])
}

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
	Step int       `json:"step"` // seconds between two values
	Rows []numbers `json:"rows"`
	// Now are the newest values for people, as in the page's table; empty: there is none.
	Now []string `json:"now"`
}

// Rows are the IDs of the rows, for the page.
func (p *plot) Rows() string { return strings.Join(p.rows, " ") }

// Length is the number of minutes.
func (p *plot) Length() int { return cmp.Or(p.Minutes, fineSeconds/60) }

// step is the number of seconds between two values.
func (p *plot) step() int {
	if p.Length()*60 > fineSeconds {
		return coarseStep
	}
	return 1
}

// values returns the values of a plot since a second (0: all that are kept); false: there are no newer ones.
func (p *plot) values(h *history, since int64) (m plotted, ok bool) {
	n := p.Length() * 60 / p.step()
	last, all := h.read(p.of, p.rows, p.step(), n)
	if m = (plotted{ID: p.ID, Last: last, Step: p.step(), Rows: make([]numbers, len(all))}); last == since {
		return m, false
	}
	if since != 0 {
		n = min(n, int(last-since)/p.step()+1)
	}
	for i := range all {
		if m.Rows[i] = all[i][len(all[i])-n:]; p.of.of == ofMetric {
			m.Now = append(m.Now, significant(all[i][len(all[i])-1]))
		}
	}
	return m, last != 0
}

// significant is a value with three significant digits; empty: there is none.
func significant(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) && math.Abs(v) < 1e15, math.Abs(v) >= 100 && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// seriesKey is a short, stable name of a series within its metric, for addresses and rows. Object and labels are quoted:
// no two series have one key, whatever their labels contain.
func seriesKey(s *inspect.Series) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.Object.Name, s.Labels)) // fmt sorts the keys of maps
	return base64.RawURLEncoding.EncodeToString(sum[:9])
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

// shownLabels is labelText in a row of a page, which has a hundred: a series may have 60 KiB of labels.
func shownLabels(labels map[string]string) string {
	return metric.Truncate(labelText(labels), metric.MaxQuoted)
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
