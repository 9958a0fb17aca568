package aggregate

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each numbered invariant of the table's packages is defined once, as "//   - A1 …", and the
// comment of a test names it.
func TestEveryInvariantHasATest(t *testing.T) {
	definition := regexp.MustCompile(`(?m)^\s*//   - ([A-Z][0-9]) `)
	label := regexp.MustCompile(`\b[A-Z][0-9]\b`)
	defined, tested := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "// ") {
					for _, one := range label.FindAllString(line, -1) {
						tested[one] = true
					}
				}
			}
			return nil
		}
		for _, found := range definition.FindAllStringSubmatch(string(text), -1) {
			if before, twice := defined[found[1]]; twice {
				t.Errorf("%s is defined in %s and in %s; a label has one definition", found[1], before, path)
			}
			defined[found[1]] = path
		}
		return nil
	})
	must(t, err)
	if len(defined) < 20 {
		t.Errorf("%d invariants are defined; the test does not see what it should", len(defined))
	}
	for one, path := range defined {
		if !tested[one] {
			t.Errorf("%s, defined in %s, is named by no test", one, path)
		}
	}
}
