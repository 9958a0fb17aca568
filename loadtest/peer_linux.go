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

// peerServer is a running peer. The datagrams that the kernel dropped are the only known losses.
type peerServer struct {
	*child
	udp netip.AddrPort
	dir string
}

// peerGrace is the wait after a peer has opened the socket.
const peerGrace = time.Second

// startPeer fills in the placeholders, starts the command, and waits until the socket is open.
func (m *measurement) startPeer(ctx context.Context) (_ *peerServer, err error) {
	m.step("starting the peer")
	t := &peerServer{}
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
	if m.peer.Config != "" {
		if err := os.WriteFile(t.configFile(), []byte(fill.Replace(m.peer.Config)), 0o600); err != nil {
			return nil, err
		}
	}
	var words []string
	for _, word := range m.peer.Command {
		words = append(words, fill.Replace(word))
	}
	cmd := exec.Command(words[0], words[1:]...)
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
		return nil, fmt.Errorf("%s: %w", m.peer.Name, err)
	}
	if err := rest(ctx, peerGrace); err != nil {
		return nil, err
	}
	return t, t.alive()
}

func (t *peerServer) configFile() string { return filepath.Join(t.dir, "config") }

func (t *peerServer) placeholders() (*strings.Replacer, error) {
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

// stop ends the peer. The exit code is ignored.
func (t *peerServer) stop() error {
	if t.child != nil {
		_ = t.terminate()
	}
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}

func (m *measurement) peerSubject(t *peerServer) subject {
	m.note("The peer reports no accounting: taken is sent less the datagrams that the kernel dropped. " +
		"Later losses are unknown.")
	return subject{
		child: t.child, what: "peer", udp: t.udp, foreign: true,
		warmUpLines: m.scenario.series.size(), warmUpRate: singleWarmUpRate,
	}
}

// measurePeer is measureServer for a peer.
func (m *measurement) measurePeer(ctx context.Context) (run Run, err error) {
	t, err := m.startPeer(ctx)
	if err != nil {
		return Run{}, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	if run.Idle, err = readMemory(t.pid()); err != nil {
		return Run{}, err
	}
	sent, taken, err := m.applyLoad(ctx, m.peerSubject(t))
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
		return Run{}, nothingTaken("peer", taken)
	}
	run.Server = taken
	return run, nil
}
