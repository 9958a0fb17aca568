package console

import (
	"strings"
	"testing"
)

// Long words break behind punctuation; short ones, and what a browser would break in the middle of a
// name, don't.
func TestLongWordsBreakBehindPunctuation(t *testing.T) {
	for text, want := range map[string]string{
		"StatefulSet/web":              "StatefulSet/web",
		"a sentence of short words":    "a sentence of short words",
		"deployments.apps/web-backend": "deployments.<wbr>apps/<wbr>web-<wbr>backend",
		"<b>deployments.apps/web</b>":  "&lt;b&gt;deployments.<wbr>apps/<wbr>web&lt;/<wbr>b&gt;",
		strings.Repeat("x", 40):        strings.Repeat("x", 32) + "<wbr>" + strings.Repeat("x", 8),
		strings.Repeat("\u202e", 4):    `\u202e\u202e\u202e\u202e`,
	} {
		if got := string(breakable(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
