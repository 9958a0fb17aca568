package pattern

import (
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
)

// Expressions of a few classes are parsed, and those of many refused before package syntax allocates for them.
func TestExpressionsOfManyClassesAreRefused(t *testing.T) {
	for text, ok := range map[string]bool{
		"":                                 true,
		"queue_.*":                         true,
		"größe-ö-ä-[a-zß-ÿ]+":              true,
		"größe-a-b-c-d-e-f-g-h":            true,
		`[\w-]+:(mean|max):[0-9]+m`:        true,
		strings.Repeat(`\w\d[a-z]\\p`, 9):  true,
		strings.Repeat(`[\x00-\x7f]`, 9):   true,
		`[\pL\p{Nd}_-]+:[\pL\p{Nd}]+`:      true,
		"[一-龥]+":                           true,
		`[\xe0-\xff][\x{c0}-\x{df}]`:       true,
		`[^\x00-\x7f]+`:                    true,
		strings.Repeat(`\pL`, 5):           false,
		"[" + strings.Repeat(`\pC\PC`, 20): false,
		`(?i)[B-\x{1e942}]`:                false,
		"(?i)[B-\U0001e942]":               false,
		"[一-龥一-龥]":                         false,
		strings.Repeat(`[ß-ÿ]`, 5):         false,
		`[b-\x{`:                           false,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(text)
		runtime.ReadMemStats(&after)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; !ok && n > 32<<10 {
			t.Errorf("%q takes %d bytes and is refused", text, n)
		}
	}
}

// The size of an expression is known before it is compiled.
func TestInstructions(t *testing.T) {
	for _, one := range []struct {
		text        string
		least, most int
	}{
		{"queue_.*", 8, 12},
		{strings.Repeat("a", 120), 120, 125},
		{"((a{100}){10})", 1000, 3100},
		{`\pL{30}`, 30, 90},
	} {
		parsed, err := syntax.Parse(one.text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if n := Instructions(parsed); n < one.least || n > one.most {
			t.Errorf("%s: %d instructions, not %d to %d", one.text, n, one.least, one.most)
		}
	}
}
