package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// sender is the source of a sample, with the rights that the configuration gives it.
type sender struct {
	origin  *metric.Sender // nil: unnamed
	pod     *metric.Pod
	account *metric.Principal // nil: no credential
	reads   *metric.Principal // see metric.Sender.Reads
	// unknown: the cluster view does not know the address yet, or the pod that the credential
	// names.
	unknown           bool
	forwarder, writer bool
}

func (r *Resolver) senderOf(s *metric.Sender) sender {
	if s == nil {
		return sender{}
	}
	w := sender{
		origin: s, pod: s.Pod, account: s.Principal, reads: s.Reads,
		unknown:   s.Pod == nil && !s.Known && s.Address.IsValid(),
		forwarder: r.forwarders.contains(s),
		writer:    r.writers.contains(s),
	}
	if a := s.Principal; a != nil && a.PodUID != "" && w.pod == nil {
		w.pod = r.cluster.PodWithUID(a.PodUID)
		w.unknown = w.pod == nil
	}
	return w
}

// is reports whether the sender is the pod.
func (w *sender) is(o *metric.Object) bool {
	return w.pod != nil && o.Resource == pods && o.Name == w.pod.Name && o.Namespace == w.pod.Namespace &&
		(o.UID == "" || o.UID == w.pod.UID)
}

// namespace returns the sender's namespace; empty: none.
func (w *sender) namespace() string {
	if w.pod != nil {
		return w.pod.Namespace
	}
	if w.account != nil {
		return w.account.Namespace
	}
	return ""
}

// livesIn reports whether the object is the sender's own namespace, which therefore exists.
func (w *sender) livesIn(o *metric.Object) bool {
	return o.Resource == namespaces && o.Name == w.namespace() && o.Name != ""
}

// senderList is a configured list of senders. It is immutable.
type senderList struct {
	networks []netip.Prefix
	accounts []account
	unix     bool
}

// account is a service account.
type account struct{ namespace, name string }

// parseSenderList parses a list, and returns a fault for every invalid entry.
func parseSenderList(entries []string) (p senderList, faults []error) {
	for _, entry := range entries {
		if err := p.add(entry); err != nil {
			faults = append(faults, err)
		}
	}
	return p, faults
}

func (p *senderList) add(entry string) error {
	if entry == "unix" {
		p.unix = true
		return nil
	}
	if network, err := netip.ParsePrefix(entry); err == nil {
		if a := network.Addr(); a.Is4In6() { // addresses are compared as IPv4
			if network.Bits() < 96 {
				return fmt.Errorf("%q; must be an IPv4 network in IPv4 notation", entry)
			}
			network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
		}
		p.networks = append(p.networks, network.Masked())
		return nil
	}
	if a, err := netip.ParseAddr(entry); err == nil && a.Zone() == "" {
		a = a.Unmap()
		p.networks = append(p.networks, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	namespace, name, ok := strings.Cut(entry, "/")
	if !ok || !isDNSName(namespace) || !isDNSName(name) || !hasLetter(entry) {
		return fmt.Errorf(`%q; must be a CIDR like 10.0.0.0/8, an address, namespace/serviceaccount, or "unix"`,
			entry)
	}
	p.accounts = append(p.accounts, account{namespace, name})
	return nil
}

// isDNSName reports whether a namespace or a service account could have the name.
func isDNSName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// hasLetter tells a service account from a mistyped network: "10.0.0.0/99" would be a legal
// account.
func hasLetter(s string) bool { return strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz") }

// contains reports whether a sender is in the list. A sender with a credential is matched by its
// account alone. One whose pod is not known yet is matched by networks alone.
func (p *senderList) contains(s *metric.Sender) bool {
	if s.Claimed {
		return false
	}
	if a := s.Principal; a != nil {
		return slices.Contains(p.accounts, account{a.Namespace, a.Name})
	}
	if !s.Address.IsValid() {
		return p.unix
	}
	for _, network := range p.networks {
		if network.Contains(s.Address) {
			return true
		}
	}
	if s.Pod == nil {
		return false
	}
	return slices.Contains(p.accounts, account{s.Pod.Namespace, s.Pod.ServiceAccount})
}

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

// MarshalText and UnmarshalText write and read the mode by name.
func (t Trust) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Trust) UnmarshalText(text []byte) error {
	for mode := Open; mode <= Strict; mode++ {
		if trustModes[mode] == string(text) {
			*t = mode
			return nil
		}
	}
	return fmt.Errorf("trust %q is invalid; must be one of %s", text, trustNames())
}

func trustNames() string { return strings.Join(trustModes[Open:], ", ") }
