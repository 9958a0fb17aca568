package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

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
