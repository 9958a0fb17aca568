package clients

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// runtimes maps the language of a code block to the program that runs it and to the name of its
// file.
var runtimes = map[string]struct{ file, program string }{
	"bash":       {"push.sh", "bash"},
	"python":     {"push.py", "python3"},
	"go":         {"push.go", "go run"},
	"java":       {"Push.java", "java"},
	"javascript": {"push.js", "node"},
	"php":        {"push.php", "php"},
	"ruby":       {"push.rb", "ruby"},
}

var codeBlock = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestClientsPage runs each code block of docs/clients.md against a server. A language whose
// program is not installed is skipped by name.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	blocks := codeBlock.FindAllStringSubmatch(page(t, "docs", "clients.md"), -1)
	if len(blocks) != len(runtimes) {
		t.Errorf("docs/clients.md has %d code blocks; must be one for each of %d languages", len(blocks), len(runtimes))
	}
	for _, block := range blocks {
		language, code := block[1], block[2]
		t.Run(language, func(t *testing.T) {
			runtime, ok := runtimes[language]
			if !ok {
				t.Fatalf("language %q is not in runtimes", language)
			}
			s := server.New(t)
			file := filepath.Join(t.TempDir(), runtime.file)
			must(t, os.WriteFile(file, []byte(onPorts(t, s, code)), 0o600))
			words := append(strings.Fields(runtime.program), file)
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skipf("skipped: %s is not installed", words[0])
			}
			s.Start()
			run(t, exec.Command(words[0], words[1:]...))
			want(t, s, map[string]float64{"http_requests:total": 1})
			if got := read(t, s, "/v1/namespaces/shop/external/queue_depth"); !strings.Contains(got, `"value":42,`) {
				t.Errorf("queue_depth is %s; want 42", got)
			}
		})
	}
}

var command = regexp.MustCompile(`(?m)^    (bin/sluice (?:push|get) .*|bash -c .*|curl .*|kubectl --kubeconfig .*)$`)

// TestCommandsOfPages runs the commands of README's first minute, docs/http-api.md and
// docs/statsd.md with the server's ports. A command that reads queue_depth prints 42.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(page(t, "README.md"), "\n## The first minute\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for name, text := range map[string]string{
		"README.md":        section,
		"docs/http-api.md": page(t, "docs", "http-api.md"),
		"docs/statsd.md":   page(t, "docs", "statsd.md"),
	} {
		t.Run(name, func(t *testing.T) {
			commands := command.FindAllStringSubmatch(text, -1)
			if len(commands) < 2 {
				t.Fatalf("found %d commands; the test does not see what it should", len(commands))
			}
			s := server.New(t)
			s.Start()
			dir := checkout(t, s)
			for _, one := range commands {
				line := onPorts(t, s, one[1])
				if program := strings.Fields(line)[0]; program == "kubectl" {
					if _, err := exec.LookPath(program); err != nil {
						t.Logf("skipped: %s is not installed", program)
						continue
					}
				}
				switch {
				case strings.HasPrefix(line, "bin/sluice push --"):
					line += " --http http://" + s.HTTP
				case strings.HasPrefix(line, "bin/sluice push"):
					line += " --statsd " + s.UDP
				}
				cmd := exec.Command("sh", "-c", strings.Replace(line, "curl ", "curl --fail ", 1))
				cmd.Dir = dir
				said := run(t, cmd)
				if strings.Contains(line, " get ") && !strings.Contains(said, "42") {
					t.Errorf("%s: got %q; want 42", line, said)
				}
			}
		})
	}
}

var pushCommand = regexp.MustCompile(`(?ms)^    (cat > \S+ <<'EOF'$.*?^    EOF|(?:echo|curl|sluice get) [^\n]*)$`)

// TestCommandsOfPushPages runs the commands of pages that need no cluster, in their order.
func TestCommandsOfPushPages(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"pushgateway.md": 1, "otlp.md": 3, "export.md": 1} {
		t.Run(name, func(t *testing.T) {
			commands := pushCommand.FindAllStringSubmatch(page(t, "docs", name), -1)
			if len(commands) != want {
				t.Fatalf("found %d commands; want %d", len(commands), want)
			}
			s := server.New(t)
			s.Start()
			dir := checkout(t, s)
			for _, one := range commands {
				line := strings.ReplaceAll(onPorts(t, s, one[1]), "\n    ", "\n")
				line = strings.NewReplacer("//sluice:", "//127.0.0.1:", "curl ", "curl --fail ", "sluice get", "bin/sluice get").Replace(line)
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir = dir
				if said := run(t, cmd); strings.Contains(line, " get ") && !strings.Contains(said, "0.298") {
					t.Errorf("%s: got %q; want 0.298", line, said)
				}
			}
		})
	}
}

var ruleCommand = regexp.MustCompile(`(?m)^    sluice (rule test \S+(?: --value \S+)*)$`)

// TestCommandsOfRules runs the commands of docs/rules.md that need no server, where rules.yaml is the rule that
// the page shows.
func TestCommandsOfRules(t *testing.T) {
	t.Parallel()
	text := page(t, "docs", "rules.md")
	commands := ruleCommand.FindAllStringSubmatch(text, -1)
	if len(commands) < 3 {
		t.Fatalf("found %d commands; the test does not see what it should", len(commands))
	}
	dir := t.TempDir()
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	must(t, err)
	must(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(codeBlock.FindStringSubmatch(text)[2]), 0o600))
	for _, one := range commands {
		cmd := exec.Command(server.New(t).Binary(), strings.Fields(one[1])...)
		cmd.Dir = dir
		run(t, cmd)
	}
}

// checkout is a folder with bin/sluice and data, as a checkout has them after make run.
func checkout(t *testing.T, s *server.Server) string {
	t.Helper()
	dir := filepath.Dir(s.DataDir())
	must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must(t, os.Symlink(s.Binary(), filepath.Join(dir, "bin", "sluice")))
	return dir
}

// page reads a page of the repository.
func page(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	must(t, err)
	return string(text)
}

// onPorts replaces the default ports in a text with those of a server.
func onPorts(t *testing.T, s *server.Server, text string) string {
	t.Helper()
	for port, address := range map[string]string{"8125": s.UDP, "9091": s.HTTP, "6443": s.API} {
		_, own, err := net.SplitHostPort(address)
		must(t, err)
		text = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, own)
	}
	return text
}

// run fails the test unless the command succeeds.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// read gets a path of the push port.
func read(t *testing.T, s *server.Server, path string) string {
	t.Helper()
	_, body := server.Ask(t, http.MethodGet, "http://"+s.HTTP+path, "")
	return body
}
