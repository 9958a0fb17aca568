package sluice_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	pathWord   = regexp.MustCompile(`^\.?\w[\w.-]*(/[\w.-]+)*/?$`)
	symbolWord = regexp.MustCompile(`^([a-z]\w*)\.([A-Z]\w*(\.\w+)?)$`)
	inFileWord = regexp.MustCompile(`^\w+(\.\w+)?$`)
	linkTarget = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	logLine    = regexp.MustCompile(`log\s+line\s+"([^"]+)"`)
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// TestDocumentsNameWhatExists checks the names in the documents for developers: each path exists,
// each `package.Symbol` is declared in a package of that name, and each word that follows a Go file
// in a table's cell is declared in that file.
func TestDocumentsNameWhatExists(t *testing.T) {
	tree := readTree(t)
	names := 0
	for _, document := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(document)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			for cell := range strings.SplitSeq(line, " | ") {
				found, missing := tree.names(cell)
				names += found
				for _, name := range missing {
					t.Errorf("%s: %s does not exist: %s", document, name, strings.TrimSpace(line))
				}
			}
		}
	}
	if names < 60 {
		t.Errorf("found %d names; the test does not see what it should", names)
	}
}

// TestAnswersNameTwoFiles checks that each row of "Where to look" names one or two Go files.
func TestAnswersNameTwoFiles(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "ARCHITECTURE.md"), "\n## Where to look\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		question, answer, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !isRow || question == "question" {
			continue
		}
		rows++
		files := map[string]bool{}
		for _, word := range quotedWord.FindAllStringSubmatch(answer, -1) {
			if path.Ext(word[1]) == ".go" {
				files[word[1]] = true
			}
		}
		if len(files) == 0 || len(files) > 2 {
			t.Errorf("%q names %d Go files; must be one or two", question, len(files))
		}
	}
	if rows < 40 {
		t.Errorf("found %d rows; the test does not see what it should", rows)
	}
}

// TestDecisionsNameWhatExists checks the decisions: each `package.Symbol` is declared, and each Go file
// with its folder exists. A decision that is renamed in the code is renamed there.
func TestDecisionsNameWhatExists(t *testing.T) {
	tree := readTree(t)
	names := 0
	for _, decision := range glob(t, "docs/adr/*.md") {
		for _, word := range quotedWord.FindAllStringSubmatch(readFile(t, decision), -1) {
			name := word[1]
			exists, inOurs := tree.files[name] != nil, strings.Contains(name, "/") && path.Ext(name) == ".go"
			if symbol := symbolWord.FindStringSubmatch(name); symbol != nil && tree.packages[symbol[1]] != nil {
				exists, inOurs = tree.packages[symbol[1]][symbol[2]], true
			}
			if !inOurs {
				continue
			}
			if names++; !exists {
				t.Errorf("%s: %s does not exist", decision, name)
			}
		}
	}
	if names < 20 {
		t.Errorf("found %d names; the test does not see what it should", names)
	}
}

// TestDecisionsAreInTheIndex holds docs/adr/README.md, which lists the decisions by subject.
func TestDecisionsAreInTheIndex(t *testing.T) {
	index := readFile(t, "docs/adr/README.md")
	for _, decision := range glob(t, "docs/adr/0*.md") {
		title, _, _ := strings.Cut(strings.TrimPrefix(readFile(t, decision), "# "), "\n")
		if line := "- [" + title + "](" + path.Base(decision) + ")\n"; strings.Count(index, line) != 1 {
			t.Errorf("docs/adr/README.md must have once: %s", line)
		}
	}
}

// TestDocumentsLinkToFiles checks that relative links of all documents lead to files and headings.
func TestDocumentsLinkToFiles(t *testing.T) {
	links := 0
	for file := range readTree(t).files {
		if path.Ext(file) != ".md" {
			continue
		}
		for _, link := range linkTarget.FindAllStringSubmatch(readFile(t, file), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			links++
			target := filepath.Join(path.Dir(file), link[1])
			if link[1] == "" {
				target = file
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			} else if link[2] != "" && !anchors(readFile(t, target))[link[2]] {
				t.Errorf("%s links to %s%s: no such heading", file, link[1], link[2])
			}
		}
	}
	if links < 60 {
		t.Errorf("found %d links; the test does not see what it should", links)
	}
}

// TestDocumentsQuoteTheLog checks that each log line which a document quotes is in the code.
func TestDocumentsQuoteTheLog(t *testing.T) {
	var code strings.Builder
	tree := readTree(t)
	for file := range tree.files {
		if path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") {
			code.WriteString(readFile(t, file))
		}
	}
	quotes := 0
	for _, file := range append(glob(t, "docs/*.md"), "README.md") {
		for _, quote := range logLine.FindAllStringSubmatch(readFile(t, file), -1) {
			quotes++
			if text := strings.Join(strings.Fields(quote[1]), " "); !strings.Contains(code.String(), `"`+text) {
				t.Errorf("%s quotes the log line %q: it is not in the code", file, text)
			}
		}
	}
	if quotes < 4 {
		t.Errorf("found %d quotes; the test does not see what it should", quotes)
	}
}

// TestEveryPackageIsDescribed checks that ARCHITECTURE.md's table of packages has a row for each
// package.
func TestEveryPackageIsDescribed(t *testing.T) {
	text := readFile(t, "ARCHITECTURE.md")
	for name := range mayImport {
		if !strings.Contains(text, "\n| `"+name+"` |") {
			t.Errorf("no row for the package %s", name)
		}
	}
}

// anchors are the headings of a document, as GitHub writes them in links.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all["#"+strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])] = true
	}
	return all
}

func TestMissingNamesAreFound(t *testing.T) {
	tree := readTree(t)
	found, missing := tree.names("`docs_test.go` `tree.names` `tree.nothing`; `metric.Sample` `metric.Nothing` `metric/none.go` `nowhere/`; " +
		"`cmd/sluice/wire.go` `wire` `lost`; `/livez`, `go test ./...`, `name:stat:window`")
	if found != 5 || len(missing) != 5 {
		t.Errorf("found %d names, missing %q; want 5 and 5", found, missing)
	}
}

// tree is the repository: its files, and what its Go files declare, as "Name" or "Type.Name".
type tree struct {
	files    map[string]map[string]bool // of Go files, their declarations
	bases    map[string]bool            // last elements of paths
	packages map[string]map[string]bool // declarations by the last element of a package's path
}

func readTree(t *testing.T) *tree {
	t.Helper()
	all := &tree{map[string]map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file == ".git" || file == "bin" || file == "data" || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		all.bases[entry.Name()] = true
		if path.Ext(file) != ".go" {
			all.files[file] = nil
			return nil
		}
		declared, err := declarations(file)
		if err != nil {
			return err
		}
		all.files[file] = declared
		name := path.Base(path.Dir(file))
		if all.packages[name] == nil {
			all.packages[name] = map[string]bool{}
		}
		for symbol := range declared {
			all.packages[name][symbol] = true
		}
		return nil
	})
	must(t, err)
	return all
}

// declarations are a file's functions, methods and types, and the fields and methods that its types
// list.
func declarations(file string) (map[string]bool, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, decl := range parsed.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[d.Name.Name] = true
			if d.Recv != nil {
				names[receiverOf(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range s.Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names, nil
}

// receiverOf is the type's name of a method's receiver.
func receiverOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiverOf(x.X)
	case *ast.IndexExpr:
		return receiverOf(x.X)
	case *ast.IndexListExpr:
		return receiverOf(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// names checks the quoted words of a table's cell, or of a line. Words that name neither path nor
// symbol are skipped.
func (a *tree) names(text string) (found int, missing []string) {
	var declared map[string]bool // of the Go file named before
	for _, word := range quotedWord.FindAllStringSubmatch(text, -1) {
		name, ok := word[1], true
		symbol := symbolWord.FindStringSubmatch(name)
		switch {
		case isFolder(name): // it is there
		case isPath(name):
			if _, err := os.Stat(name); err != nil {
				ok = !strings.Contains(name, "/") && a.bases[name]
			}
			declared = a.files[name]
		case symbol != nil && a.packages[symbol[1]] != nil:
			ok = a.packages[symbol[1]][symbol[2]]
		case declared != nil && inFileWord.MatchString(name):
			ok = declared[name]
		default:
			continue
		}
		if ok {
			found++
		} else {
			missing = append(missing, name)
		}
	}
	return found, missing
}

// isFolder reports whether a word is a folder at the root, as packages are named in a sentence.
func isFolder(word string) bool {
	found, err := os.Stat(word)
	return err == nil && found.IsDir() && !strings.Contains(word, "/")
}

// isPath reports whether a word is a path of the repository: not of what is built, nor of the
// standard library.
func isPath(word string) bool {
	if !pathWord.MatchString(word) || strings.HasPrefix(word, "bin/") {
		return false
	}
	if _, err := os.Stat(filepath.Join(build.Default.GOROOT, "src", word)); err == nil && !strings.HasSuffix(word, ".go") {
		return false
	}
	switch path.Ext(word) {
	case ".go", ".md", ".json", ".yaml":
		return true
	}
	return strings.Contains(word, "/")
}
