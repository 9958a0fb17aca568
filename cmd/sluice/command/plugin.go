package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// pluginName is the name under which kubectl finds this program as a plugin.
const pluginName = "kubectl-sluice"

// isPlugin reports whether the program was started as a plugin of kubectl.
func isPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == pluginName
}

// asPlugin makes help and errors name the command as its user wrote it.
func asPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl sluice"}
}
