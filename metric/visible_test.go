package metric

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"http_requests":             "http_requests",
		"größe/日本":                  "größe/日本",
		"":                          "",
		"a\nb\tc":                   `a\nb\tc`,
		"\x1b[31mred\x07":           `\x1b[31mred\a`,
		"\u009b2J\x7f":              `\u009b2J\x7f`,
		"a\xffb":                    `a\xffb`,
		"invoice\u202egnp.exe":      `invoice\u202egnp.exe`,
		"zero\u200bwidth\ufeff":     `zero\u200bwidth\ufeff`,
		"line\u2028paragraph\u2029": `line\u2028paragraph\u2029`,
		"\U000e0041":                `\U000e0041`,
		"\ufffd":                    "\ufffd", // valid UTF-8: somebody else has replaced a byte
		"queue=mail,ä=\u00a0😀":      "queue=mail,ä=\u00a0😀",
		"d\x00e":                    `d\x00e`, "\u0080\u009f": `\u0080\u009f`, "a\xc2": `a\xc2`, "\x9b31m": `\x9b31m`,
		`it's 'quoted'`: `it's 'quoted'`,
		`a back\slash`:  `a back\slash`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Visible("http_requests") }); n != 0 {
		t.Errorf("%v allocations for a harmless text", n)
	}
}
