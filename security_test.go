package sluice_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	quotedWord = regexp.MustCompile("`([^`]+)`")
	testName   = regexp.MustCompile(`^(Test|Fuzz)[A-Z0-9]\w*$`)
)

// Every row of SECURITY.md's table names at least one test behind its file, and all tests named
// exist.
func TestSecurityIsHeldByTests(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	must(t, err)
	rows, tests := 0, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| threat") {
			continue
		}
		rows++
		held := 0
		for _, fault := range missingTests(cells[2], &held) {
			t.Errorf("%s: %s", strings.TrimPrefix(cells[0], "| "), fault)
		}
		if tests += held; held == 0 {
			t.Errorf("%s: no test is named; want `folder/file_test.go` `TestName`", strings.TrimPrefix(cells[0], "| "))
		}
	}
	if rows < 20 || tests < 40 {
		t.Errorf("%d rows with %d tests: the test does not see what it should", rows, tests)
	}
}

// missingTests are the tests of a cell that are not in the file named before them; held counts the
// others.
func missingTests(cell string, held *int) (faults []string) {
	file, code := "", ""
	for _, word := range quotedWord.FindAllStringSubmatch(cell, -1) {
		switch name := word[1]; {
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			if err != nil {
				faults = append(faults, err.Error())
			}
			file, code = name, string(text)
		case !testName.MatchString(name):
			faults = append(faults, name+" is neither a file of tests nor a test")
		case !strings.Contains(code, "\nfunc "+name+"("):
			faults = append(faults, "there is no "+name+" in "+file)
		default:
			*held++
		}
	}
	return faults
}

func TestMissingTestsAreFound(t *testing.T) {
	held := 0
	faults := missingTests("`security_test.go` `TestMissingTestsAreFound` `TestNothing`; `none_test.go`; `word`; `TestLost`", &held)
	if held != 1 || len(faults) != 4 {
		t.Errorf("%d held, faults %q; want 1 and 4", held, faults)
	}
}
