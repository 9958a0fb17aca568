package loadtest

import (
	"path/filepath"
	"strings"
	"testing"
)

const goodPeer = "name: a, command: [a, '{udp}'], scenarios: [plain-10k]"

func TestPeersFile(t *testing.T) {
	for _, text := range []string{
		"- {" + goodPeer + "}",
		"- {name: a, command: [a, '{config}'], config: 'port {udp}', scenarios: [plain-10k, single-10k]}",
		`[{"name": "a", "command": ["a", "{udp}"], "scenarios": ["plain-10k"]}]`,
	} {
		if peers, err := parsePeers([]byte(text)); err != nil || len(peers) != 1 || !peers[0].takes("plain-10k") || peers[0].takes("tagged-10k") {
			t.Errorf("%s: %+v, %v: want a peer that takes plain-10k", text, peers, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "no peer; must be a list",
		"[]":                                  "no peer; must be a list",
		"name: a":                             "cannot unmarshal",
		"- {" + goodPeer + ", rate: 5}":       "field rate not found",
		"- {name: a, scenarios: [plain-10k]}": "command is empty",
		"- {name: a, command: [''], scenarios: [plain-10k]}":                             "command is empty",
		"- {name: a, command: 'a {udp}', scenarios: [plain-10k]}":                        "cannot unmarshal",
		"- {name: a, command: [a], scenarios: [plain-10k]}":                              "neither command nor config has {udp}",
		"- {name: a, command: [a, '{config}'], config: x, scenarios: [plain-10k]}":       "neither command nor config has {udp}",
		"- {name: a, command: [a, '{udp}', '{config}'], scenarios: [plain-10k]}":         "config is empty",
		"- {name: a, command: [a, '{udp}'], config: '{udp}', scenarios: [plain-10k]}":    "config has no effect",
		"- {name: a, command: [a, '{udp}']}":                                             "scenarios is empty",
		"- {name: a, command: [a, '{udp}'], scenarios: [churn]}":                         `scenario "churn" is unknown, or has no load of lines`,
		"- {name: sluice, command: [a, '{udp}'], scenarios: [plain-10k]}":                `name is "sluice"`,
		"- {" + goodPeer + "}\n- {" + goodPeer + "}":                                     `peer 2 ("a"): name is "a", as of a peer before`,
		"- {command: [a, '{udp}'], scenarios: [plain-10k]}\n- {name: b, scenarios: [x]}": `peer 2 ("b"): command is empty`,
	} {
		if _, err := parsePeers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadPeers(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is no error")
	}
}

// The file that "make figures" uses.
func TestOurPeersFile(t *testing.T) {
	peers, err := ReadPeers("peers.yaml")
	if err != nil || len(peers) < 4 {
		t.Errorf("%+v, %v: want four peers", peers, err)
	}
}

func TestPeersThatAreNotInstalledAreSkipped(t *testing.T) {
	installed, skipped := installedPeers([]Peer{{Name: "a", Command: []string{"/no/such/program"}}, {Name: "b", Command: []string{"/bin/sh"}}})
	if len(installed) != 1 || installed[0].Name != "b" {
		t.Errorf("%+v: want b", installed)
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0], "a is skipped: ") {
		t.Errorf("%q: want that a is skipped", skipped)
	}
}
