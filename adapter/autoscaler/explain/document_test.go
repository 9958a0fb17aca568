package explain

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// quotation is a comment that names a golden file, and the indented block after it.
var quotation = regexp.MustCompile(`<!-- adapter/autoscaler/explain/testdata/([a-z-]+)\.txt -->\n\n((?:    .*\n|\n)+)`)

// TestDocumentQuotesExplanations holds docs/explain.md against the golden files: each block is the
// beginning of its file, and each cause has one.
func TestDocumentQuotesExplanations(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "explain.md"))
	must(t, err)
	quoted := map[string]bool{}
	for _, m := range quotation.FindAllStringSubmatch(string(text), -1) {
		name, block := m[1], strings.TrimRight(m[2], "\n")+"\n"
		block = strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n    ", "\n"), "\n")
		golden, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Error(err)
		} else if !strings.HasPrefix(string(golden), block) {
			t.Errorf("docs/explain.md has, of %s.txt,\n%s\nwhich begins\n%s", name, block, golden)
		}
		quoted[name] = true
	}
	causes := map[Cause]bool{}
	for _, one := range provoked {
		causes[one.cause] = causes[one.cause] || quoted[one.name]
	}
	for cause, is := range causes {
		if !is && cause != "" && cause != NotAbleToScale {
			t.Errorf("docs/explain.md quotes no explanation of %q", cause)
		}
	}
}
