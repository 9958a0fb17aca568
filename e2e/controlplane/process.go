package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

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

// CPU is the processor time that a process has used so far: "kube-apiserver" or "kube-controller-manager". Linux only.
func (c *ControlPlane) CPU(name string) (time.Duration, error) {
	for _, p := range c.processes {
		if p.name != name {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.ID()))
		if err != nil {
			return 0, err
		}
		var user, system int64 // in hundredths of a second: proc(5), fields 14 and 15
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		_, err = fmt.Sscan(after[11]+" "+after[12], &user, &system)
		return time.Duration(user+system) * 10 * time.Millisecond, err
	}
	return 0, fmt.Errorf("no process %s", name)
}
