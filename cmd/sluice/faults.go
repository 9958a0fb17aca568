package main

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// settingFault is what is wrong with one setting. Its message begins with the setting as the user wrote it:
// "--max-series", "-n", or "sluice.yaml:3: max-series".
type settingFault struct {
	flag    string // its name, without dashes
	written string
	text    string
}

func (f *settingFault) Error() string {
	if strings.HasPrefix(f.text, "wants ") || strings.HasPrefix(f.text, "is ") {
		return f.written + " " + f.text
	}
	return f.written + ": " + f.text
}

// faulted are the flags that the faults are about.
func faulted(faults []error) map[string]bool {
	flags := map[string]bool{}
	for _, fault := range faults {
		var one *settingFault
		if errors.As(fault, &one) {
			flags[one.flag] = true
		}
	}
	return flags
}

// set gives a flag a value. One that it does not take leaves the value as it was: pflag's own types would
// turn to 0, which would be a fault more. The error says what is wrong with the value, not whose it is.
func set(flag *pflag.Flag, value string) error {
	before := flag.Value.String()
	err := flag.Value.Set(value)
	if err == nil {
		return nil
	}
	_ = flag.Value.Set(before)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q is too large", value)
	}
	if text, ok := isNo[flag.Value.Type()]; ok {
		return fmt.Errorf("%q %s", value, text)
	}
	return fmt.Errorf("%q, %w", value, err)
}

// isNo says what a value is not that a flag of that type does not take.
var isNo = map[string]string{
	"int":       "is no whole number",
	"float64":   "is no number",
	"bool":      "is neither true nor false",
	"duration":  "is no duration, as in 90s, 10m or 24h (units are ms, s, m and h)",
	"durations": "is no list of durations, as in 10s,1m (units are s, m and h)",
}

// stageFaults puts the faults that the stages find in their configurations into the words of the command
// line. A setting in known has been found at fault before, and is not named again;
// what one stage finds in it is named all.
func (c *config) stageFaults(known map[string]bool) []error {
	var faults []error
	for _, stage := range []struct {
		name   string
		faults error
	}{
		{"statsd", c.receiver.Validate()},
		{"push", c.push.Validate()},
		{"groups", c.groups.Validate()},
		{"identity", c.identity.Validate()},
		{"cluster", c.cluster.Validate()},
		{"limit", c.limit.Validate()},
		{"aggregate", c.table.Validate()},
		{"store", c.withDir().Validate()},
		{"api", c.api.Validate()},
		{"operations", c.operations.Validate()},
	} {
		found := map[string]bool{} // by this stage
		said := map[string]bool{}  // of two listeners with one setting
		for _, fault := range flatten([]error{stage.faults}) {
			field, text := cutField(strings.TrimPrefix(fault.Error(), stage.name+": "))
			flag := c.flagOf(stage.name, field)
			if flag == "" {
				faults = append(faults, fmt.Errorf("%s: %w", stage.name, fault))
				continue
			}
			found[flag] = true
			one := c.fault(flag, "%s", c.inFlags(stage.name, text))
			if !known[flag] && !said[one.Error()] {
				faults = append(faults, one)
			}
			said[one.Error()] = true
		}
		maps.Copy(known, found)
	}
	return faults
}

// fault is one of a setting, which it names as the user wrote it.
func (c *config) fault(flag, format string, args ...any) error {
	written := "--" + flag
	if line, ok := c.written[flag]; ok {
		written = line
	}
	return &settingFault{flag, written, fmt.Sprintf(format, args...)}
}

// flagOfField is the flag by which a field of a stage's configuration is set, where they differ.
var flagOfField = map[string]string{
	"statsd.udp.address": "statsd-udp", "statsd.tcp.address": "statsd-tcp",
	"statsd.unixgram.address": "statsd-unixgram", "statsd.unix.address": "statsd-unix",
	"statsd.dialect": "dialect", "statsd.sockets": "statsd-udp-sockets", "statsd.readbuffer": "statsd-read-buffer",
	"statsd.maxconnections": "statsd-max-connections", "statsd.maxconnectionsperaddress": "statsd-max-connections-per-address", "statsd.idletimeout": "statsd-idle-timeout",
	"push.address": "http-address", "push.maxbodybytes": "http-max-body", "push.maxdecompressedbytes": "http-max-decompressed-body", "push.maxconnections": "http-max-connections",
	"push.maxconnsperip": "http-max-connections-per-address",
	"push.auth":          "push-auth", "push.tokenaudience": "push-token-audience", "push.basicauthfile": "push-basic-auth-file",
	"push.allowedhosts": "push-allowed-hosts",
	"push.tlscertfile":  "push-tls-cert-file", "push.tlskeyfile": "push-tls-key-file",
	"push.tlsclientcafile": "push-tls-client-ca-file", "push.tlsclientauth": "push-tls-client-auth",
	"push.groupttl": "http-group-ttl", "push.adminwipe": "http-admin-wipe",
	"groups.maxgroups": "http-max-groups", "groups.maxbytes": "http-max-group-bytes", "groups.namespaceshare": "http-group-namespace-share",
	"identity.defaultnamespace": "default-namespace", "identity.trust": "trust",
	"identity.trustedforwarders": "trusted-forwarders", "identity.externalwriters": "external-writers",
	"cluster.kubeconfig": "kubeconfig", "cluster.objectkinds": "object-kinds",
	"limit.podmetrics": "pod-metrics", "limit.podseries": "pod-series",
	"limit.namespacemetrics": "namespace-metrics", "limit.namespaceseries": "namespace-series",
	"aggregate.windows": "windows", "aggregate.externalttl": "external-ttl", "aggregate.objectttl": "object-ttl",
	"aggregate.maxseries": "max-series", "aggregate.maxbytes": "max-bytes",
	"store.dir": "data-dir", "store.flushinterval": "flush-interval", "store.syncinterval": "sync-interval",
	"store.minfreebytes": "min-free-disk",
	"api.address":        "api-address", "api.certfile": "api-cert-file", "api.keyfile": "api-key-file",
	"api.custommetrics": "api-custom-metrics", "api.externalmetrics": "api-external-metrics",
	"api.discoverylimit": "api-discovery-limit", "api.maxinflight": "api-max-in-flight",
	"operations.address": "ops-address",
}

// flagOf is the flag of a field as a stage names it ("maxSeries", "MaxBodyBytes", "listeners[0].address") or
// as the flag is named; empty: there is none.
func (c *config) flagOf(stage, field string) string {
	if c.flags[field] {
		return field
	}
	if rest, ok := strings.CutPrefix(field, "listeners["); ok {
		number, name, _ := strings.Cut(rest, "].")
		field = name
		if i, err := strconv.Atoi(number); err == nil && i < len(c.receiver.Listeners) && name == "address" {
			field = c.receiver.Listeners[i].Network + ".address"
		}
	}
	return flagOfField[stage+"."+strings.ToLower(field)]
}

// cutField takes a fault apart into its field and what is wrong with it.
func cutField(fault string) (field, text string) {
	fault = strings.TrimPrefix(fault, "--")
	end := strings.IndexAny(fault, ": ,")
	if end < 0 {
		return "", fault
	}
	return fault[:end], strings.TrimLeft(fault[end:], ": ")
}

var (
	oneTone = strings.NewReplacer("; it must not be ", ", want it not to be ", "; it must ", ", want it to ", ", but must ", ", want it to ", "; want ", ", want ", ": want ", ", want ")
	toBe    = strings.NewReplacer("want it to be ", "want ", "want it not to be shorter than ", "want at least ")
)

// inFlags words a fault as all of them are, with the flags' names.
func (c *config) inFlags(stage, text string) string {
	text = strings.TrimPrefix(text, "is ")
	text = toBe.Replace(oneTone.Replace(text))
	words := strings.Fields(text)
	for i, word := range words {
		bare := strings.Trim(word, ",;:")
		if flag := flagOfField[stage+"."+strings.ToLower(bare)]; flag != "" && strings.ToLower(bare) != bare {
			words[i] = strings.Replace(word, bare, "--"+flag, 1)
		}
	}
	return strings.Join(words, " ")
}
