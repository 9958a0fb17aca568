package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tailLines is the number of lines of each log that a failed test shows.
const tailLines = 30

// logTails returns the last lines of all logs.
func (c *ControlPlane) logTails() string {
	var b strings.Builder
	for _, log := range c.logs {
		fmt.Fprintf(&b, "--- %s:\n%s\n", filepath.Base(log), tail(log))
	}
	return b.String()
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
