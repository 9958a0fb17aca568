package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is another StatsD server. The datagrams that the kernel dropped are the only known losses.
type target struct {
	*child
	udp netip.AddrPort
	dir string
}

// targetGrace is the wait after a target has opened its socket.
const targetGrace = time.Second

// startTarget fills in the placeholders, starts the command line in the shell, and waits until the
// socket is open.
func (m *measurement) startTarget(ctx context.Context) (_ *target, err error) {
	m.step("starting the target")
	t := &target{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.stop())
		}
	}()
	if t.dir, err = os.MkdirTemp("", "sluice-loadtest-"); err != nil {
		return nil, err
	}
	fill, err := t.placeholders()
	if err != nil {
		return nil, err
	}
	if m.TargetConfig != "" {
		template, err := os.ReadFile(m.TargetConfig)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(t.configFile(), []byte(fill.Replace(string(template))), 0o600); err != nil {
			return nil, err
		}
	}
	// A shell with nothing left to do becomes the server. A shell that stays is the server's
	// parent: measurements include the descendants, and signals reach the whole process group.
	cmd := exec.Command("/bin/sh", "-c", fill.Replace(m.Target))
	if m.processors.pinned() {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	if t.child, err = startChild(cmd, m.processors.server); err != nil {
		return nil, err
	}
	err = t.await(ctx, "UDP socket", startTimeout, func() (bool, error) {
		_, err := readQueue(t.udp)
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if err := rest(ctx, targetGrace); err != nil {
		return nil, err
	}
	return t, t.alive()
}

func (t *target) configFile() string { return filepath.Join(t.dir, "config") }

func (t *target) placeholders() (*strings.Replacer, error) {
	free, err := freePorts()
	if err != nil {
		return nil, err
	}
	t.udp = free.udp
	_, tcp, err := net.SplitHostPort(free.http)
	if err != nil {
		return nil, err
	}
	return strings.NewReplacer("{udp}", fmt.Sprint(t.udp.Port()), "{tcp}", tcp, "{config}", t.configFile()), nil
}

// stop ends the target. The exit code is ignored.
func (t *target) stop() error {
	if t.child != nil {
		_ = t.terminate()
	}
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}

func (m *measurement) targetSubject(t *target) subject {
	m.note("The target reports no accounting: taken is sent less the datagrams that the kernel dropped. " +
		"Later losses are unknown.")
	return subject{
		child: t.child, what: "target", udp: t.udp, warmUpLines: m.scenario.series.size(), warmUpRate: singleWarmUpRate, foreign: true,
	}
}

// measureTarget is measureServer for a target.
func (m *measurement) measureTarget(ctx context.Context) (run Run, err error) {
	t, err := m.startTarget(ctx)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if run.Idle, err = readMemory(t.pid()); err != nil {
		return Run{}, err
	}
	sent, taken, err := m.applyLoad(ctx, m.targetSubject(t))
	if err != nil {
		return Run{}, err
	}
	if run.Memory, err = readMemory(t.pid()); err != nil {
		return Run{}, err
	}
	least, most := sent.load.lost(taken.DroppedDatagrams)
	if least != most {
		m.note("Dropped datagrams had different numbers of lines: the most possible are counted as lost.")
	}
	if taken.Taken = taken.Sent - most; taken.Taken <= 0 {
		return Run{}, nothingTaken("target", taken)
	}
	run.Server = taken
	return run, nil
}
