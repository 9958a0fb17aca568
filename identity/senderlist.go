package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
)

// peers is a list of senders, as it is configured. It is never changed once it is made.
type senderList struct {
	networks []netip.Prefix
	accounts []account
	unix     bool
}

// account is a service account.
type account struct{ namespace, name string }

// parsePeers reads a list, and returns every entry that cannot be read as a fault.
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
		if a := network.Addr(); a.Is4In6() { // addresses are compared as IPv4 wherever they are
			if network.Bits() < 96 {
				return fmt.Errorf("%q: want an IPv4 network written as such", entry)
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
		return fmt.Errorf(`%q: want a CIDR like 10.0.0.0/8, an address, namespace/serviceaccount, or "unix"`, entry)
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

// hasLetter tells a service account from a mistaken network: "10.0.0.0/99" would be a legal one.
func hasLetter(s string) bool { return strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz") }

// have reports whether a sender is in the list. Who it is when its address is not known yet, only networks can say; where it
// shows a credential, that says it and not the address.
func (p *senderList) contains(s *metric.Sender) bool {
	if a := s.Account; a != nil {
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
