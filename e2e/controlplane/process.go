package controlplane

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/sluice-metrics/sluice/e2e/child"
)

// process is a part of the control plane. Its output goes to a log file.
type process struct {
	*child.Process
	name string
}

func startProcess(name, binary string, flags []string, log string) (process, error) {
	file, err := os.Create(log)
	if err != nil {
		return process{}, err
	}
	defer file.Close() // the child has a descriptor of its own
	cmd := exec.Command(binary, flags...)
	cmd.Stdout, cmd.Stderr = file, file
	started, err := child.Start(cmd)
	if err != nil {
		return process{}, fmt.Errorf("start of %s: %w", name, err)
	}
	return process{started, name}, nil
}

// ended returns an error if a process has ended by itself.
func (c *ControlPlane) ended() error {
	for _, p := range c.processes {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended: %v", p.name, p.Err())
		default:
		}
	}
	return nil
}
