package identity

import (
	"fmt"
	"strings"
)

// Trust is whose claims are believed. Forwarders are believed in every mode.
type Trust uint8

// The modes. None is the zero value, so that a forgotten one is noticed.
const (
	_ Trust = iota
	// Open believes every claim. A claimed pod must exist nevertheless.
	Open
	// Namespace lets a pod speak of itself, and of existing objects and externals of its own namespace. A pod's
	// series come from that pod only.
	Namespace
	// Strict lets a pod speak of itself only.
	Strict
)

var trustModes = [...]string{Open: "open", Namespace: "namespace", Strict: "strict"}

func (t Trust) valid() bool { return t >= Open && t <= Strict }

func (t Trust) String() string {
	if t.valid() {
		return trustModes[t]
	}
	return "invalid"
}

// ParseTrust reads what String prints.
func ParseTrust(s string) (Trust, error) {
	for t := Open; t <= Strict; t++ {
		if trustModes[t] == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("trust %q: want %s", s, trustNames())
}

// MarshalText and UnmarshalText let a configuration file hold the mode by name.
func (t Trust) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Trust) UnmarshalText(text []byte) error {
	parsed, err := ParseTrust(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

func trustNames() string { return strings.Join(trustModes[Open:], ", ") }
