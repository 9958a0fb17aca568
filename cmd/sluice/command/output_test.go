package command

import (
	"strings"
	"testing"
)

// Authors of autoscalers choose the names of metrics, also with control characters. A terminal obeys none of them.
func TestOutputIsVisible(t *testing.T) {
	document := []byte(`{"name":"\u001b]0;evil\u0007\u202e","items":[1,2]}`)
	for format, want := range map[string]string{
		`jsonpath={.name}{"\t"}{range .items[*]}{@}{"\n"}{end}`: "\\x1b]0;evil\\a\\u202e\t1\n2\n\n",
		"json": `"name": "\u001b]0;evil\u0007\u202e"`,
		"yaml": `name: "\e]0;evil\a`,
	} {
		var out strings.Builder
		o := NewOutput("json", "yaml")
		if err := o.Set(format); err != nil {
			t.Fatal(err)
		}
		if err := o.Write(&out, document); err != nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %q, %v; want %q", format, out.String(), err, want)
		}
	}
}
