package replicas

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-metrics/sluice/e2e/child"
	"github.com/sluice-metrics/sluice/e2e/server"
)

// Addresses of the two ends of a node's link.
const (
	homeAddress, homeMAC = "10.77.0.1", "02:00:00:00:00:01"
	nodeAddress, nodeMAC = "10.77.0.2", "02:00:00:00:00:02"
	nobodysMAC           = "02:00:00:00:00:03"
)

// node is another machine: a network namespace with a link to the test's own. A silent node loses
// all packets. It sends no FIN and no ARP answer tells that it is away.
type node struct {
	t      *testing.T
	holder *child.Process // its network namespace is the node's
}

// inNamespace is set in the process that may change its network.
const inNamespace = "SLUICE_TEST_NETWORK"

// alone runs the test again, in a process with a network namespace of its own. It returns true in
// that process.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		run(t, "ip", "link", "set", "lo", "up")
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: this fault needs root (network namespaces)")
	}
	for _, tool := range []string{"ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: ", err)
		}
	}
	if out, err := exec.Command("unshare", "--net", "true").CombinedOutput(); err != nil { // root of a container
		t.Skipf("skipped: no network namespace can be made: %v %s", err, out)
	}
	cmd := exec.Command("unshare", "--net", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdout = t.Output()
	cmd.Stderr = t.Output()
	again, err := child.Start(cmd)
	must(t, err)
	if <-again.Done(); again.Err() != nil {
		t.Error(again.Err())
	}
	return false
}

func newNode(t *testing.T) *node {
	t.Helper()
	holder, err := child.Start(exec.Command("unshare", "--net", "sleep", "3600"))
	must(t, err)
	t.Cleanup(holder.Kill)
	n := &node{t, holder}
	server.Within(t, func() string {
		own, _ := os.Readlink("/proc/self/ns/net")
		if its, err := os.Readlink(n.namespace()); err != nil || its == own {
			return fmt.Sprintf("the node has no network namespace: %s (%v)", its, err)
		}
		return ""
	})
	run(t, "ip", "link", "add", "home", "address", homeMAC, "type", "veth",
		"peer", "name", "node", "address", nodeMAC, "netns", fmt.Sprint(holder.ID()))
	for _, end := range []struct {
		run           func(args ...string)
		link, address string
	}{{n.home, "home", homeAddress}, {n.inside, "node", nodeAddress}} {
		end.run("ip", "address", "add", end.address+"/24", "dev", end.link)
		end.run("ip", "link", "set", end.link, "up")
	}
	n.inside("ip", "link", "set", "lo", "up")
	n.silence(false)
	return n
}

func (n *node) namespace() string { return fmt.Sprintf("/proc/%d/ns/net", n.holder.ID()) }

// home runs a command at the test's end of the link, inside at the node's.
func (n *node) home(args ...string) { run(n.t, args...) }
func (n *node) inside(args ...string) {
	run(n.t, append([]string{"nsenter", "--net=" + n.namespace()}, args...)...)
}

// holds makes a server run on the node.
func (n *node) holds(s *server.Server) {
	n.t.Helper()
	script := filepath.Join(n.t.TempDir(), "sluice")
	text := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=%s '%s' \"$@\"\n", n.namespace(), s.Binary())
	must(n.t, os.WriteFile(script, []byte(text), 0o700))
	s.Runs(script)
}

// silence loses all packets of both directions, or none. Each end sends them to an address that
// nobody has.
func (n *node) silence(silent bool) {
	toNode, toHome := nodeMAC, homeMAC
	if silent {
		toNode, toHome = nobodysMAC, nobodysMAC
	}
	n.home("ip", "neighbour", "replace", nodeAddress, "lladdr", toNode, "nud", "permanent", "dev", "home")
	n.inside("ip", "neighbour", "replace", homeAddress, "lladdr", toHome, "nud", "permanent", "dev", "node")
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}
