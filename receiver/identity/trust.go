package identity

import (
	"fmt"
	"strings"
)

// Trust decides which claims are accepted. Forwarders' claims are accepted in every mode.
type Trust uint8

// The modes. Zero is invalid, so a forgotten mode is noticed.
const (
	_ Trust = iota
	// Open accepts every claim. A claimed pod must exist.
	Open
	// Namespace lets a pod describe itself, and existing objects and externals of its own
	// namespace. A pod's series come from that pod only.
	Namespace
	// Strict lets a pod describe itself only.
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

// ParseTrust parses the names that String returns.
func ParseTrust(s string) (Trust, error) {
	for t := Open; t <= Strict; t++ {
		if trustModes[t] == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("trust %q is invalid; must be one of %s", s, trustNames())
}

// MarshalText and UnmarshalText write and read the mode by name.
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
