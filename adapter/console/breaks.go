package console

import (
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/metric"
)

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
