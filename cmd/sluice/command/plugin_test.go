package command

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestPluginOfKubectl(t *testing.T) {
	for program, want := range map[string]bool{"/usr/local/bin/kubectl-sluice": true, "kubectl-sluice.exe": true, "sluice": false, "kubectl-sluice2": false} {
		if isPlugin(program) != want {
			t.Errorf("%s: %v", program, !want)
		}
	}
	before := os.Args[0]
	defer func() { os.Args[0] = before }()
	os.Args[0] = "/bin/kubectl-sluice"
	list := &cobra.Command{Use: "list [WHAT]", RunE: WithArguments(func(*cobra.Command, []string, []error) error { return nil })}
	var out strings.Builder
	Execute(t.Context(), NewRoot("", list), []string{"list", "--help"}, Streams{Out: &out})
	if !strings.Contains(out.String(), "\n  kubectl sluice list [WHAT] [flags]\n") {
		t.Errorf("help:\n%s", &out)
	}
}
