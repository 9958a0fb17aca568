package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/receiver/statsd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pushOptions is the target of push, and its credentials.
type pushOptions struct {
	// StatsD lines.
	statsd  string
	dialect statsd.Dialect
	// One value over HTTP: exactly one of these is its kind.
	gauge, counter, timer, set bool

	http      string
	namespace string
	object    string
	labels    []string
	ttl       lifetime
	sync      bool
	timeout   time.Duration
	shown     credentials
}

const pushLong = `Push sends metrics in one of two ways.

StatsD lines are sent over UDP. Push checks grammar and name of each line first, as the server does, so that a typo is reported. The server alone can judge which object a line may describe (sluice_object). If one of the lines given as arguments is invalid, none is sent. With "-", lines are read from standard input: valid lines are sent within 100ms, invalid ones are reported with their number. SIGINT and SIGTERM end push once all lines read so far are sent. UDP does not tell what the server did with a line.

With --gauge, --counter, --timer or --set, one value is pushed over HTTP, to the path that it is read from, and push prints the server's response. If the server requires credentials, show a token, a name and a password, or a client certificate.`

const pushExample = `  sluice push 'http_requests:1|c' 'latency:32|ms|#zone:a'
  generate | sluice push -
  sluice push --gauge queue_depth 42 -n shop --object deploy/web
  sluice push --counter jobs_done 1 -n shop --label queue=mail --sync
  sluice push --gauge rows 17 -n shop --http https://sluice.example.com:9091 --ca-file ca.crt --token-file token`

func newPush() *cobra.Command {
	o := pushOptions{}
	cmd := &cobra.Command{
		Use:     "push LINE... | push --KIND METRIC VALUE",
		Short:   "Push StatsD lines, or one value over HTTP",
		Long:    pushLong,
		Example: pushExample,
		RunE: command.WithArguments(func(cmd *cobra.Command, args []string, faults []error) error {
			if command.AnyUnknown(faults) { // it may be the one that decides what the arguments are
				return command.Usage(faults...)
			}
			if o.overHTTP() {
				return pushValue(cmd, o, args, faults)
			}
			return pushLines(cmd, o, args, faults)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	command.UnderHeading(flags, "StatsD lines", func() {
		flags.StringVar(&o.statsd, "statsd", "127.0.0.1:8125", "Address (host:port) that StatsD lines are sent to.")
		flags.Var(command.NewChoice(&o.dialect, statsd.DialectNames()), "dialect",
			"Dialect that StatsD lines are checked in.")
	})
	command.UnderHeading(flags, "One value over HTTP", func() {
		flags.BoolVar(&o.gauge, "gauge", false, "Set a gauge to VALUE.")
		flags.BoolVar(&o.counter, "counter", false, "Add VALUE to a counter.")
		flags.BoolVar(&o.timer, "timer", false, "Add VALUE to a timer, as one observation.")
		flags.BoolVar(&o.set, "set", false, "Add VALUE to a set, as a member.")
		flags.StringVar(&o.http, "http", "http://127.0.0.1:9091",
			"Address of the HTTP push port, http://host:port or https://host:port.")
		flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the object, or of the external metric.")
		flags.StringVar(&o.object, "object", "", "Object that the value describes, <resource>/<name>; empty: none, the metric is external.")
		flags.StringArrayVarP(&o.labels, "label", "l", nil, "Label of the value, key=value. May be repeated.")
		flags.Var(&o.ttl, "ttl", "Lifetime of the series after this push, as in 90s, 10m or 24h; empty: until the series is deleted.")
		flags.BoolVar(&o.sync, "sync", false, "Wait until the value is on the server's disk.")
		flags.DurationVar(&o.timeout, "timeout", 15*time.Second, "Time limit of the push over HTTP.")
	})
	command.UnderHeading(flags, "Credentials", func() { o.shown.bind(flags) })
	return cmd
}

func (o *pushOptions) overHTTP() bool { return o.gauge || o.counter || o.timer || o.set }

// kind is the kind of the value, as the server's "type" parameter.
func (o *pushOptions) kind() (string, error) {
	found := ""
	for _, k := range []struct {
		asked bool
		name  string
	}{{o.gauge, "gauge"}, {o.counter, "counter"}, {o.timer, "timer"}, {o.set, "set"}} {
		if !k.asked {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("--%s and --%s are set; must be one kind", found, k.name)
		}
		found = k.name
	}
	return found, nil
}

// onlyOverHTTP is a fault for each flag that StatsD lines cannot carry.
func (o *pushOptions) onlyOverHTTP(cmd *cobra.Command) []error {
	var faults []error
	for _, name := range append([]string{"http", "namespace", "object", "label", "ttl", "sync"}, credentialFlags()...) {
		if cmd.Flags().Changed(name) {
			faults = append(faults, fmt.Errorf("--%s is for pushes over HTTP; must have --gauge, --counter, --timer or --set",
				name))
		}
	}
	return faults
}

var errNothingToPush = errors.New("nothing to push; must have StatsD lines, \"-\" for standard input, or --gauge METRIC VALUE")

// UserVariable is the environment variable with name:password, where --user-file is not set.
const UserVariable = "SLUICE_PUSH_USER"

// credentials are those of the client and its trust in the server. Secrets come from files or the
// environment: every user of the machine can see arguments.
type credentials struct {
	tokenFile string
	userFile  string
	certFile  string
	keyFile   string
	caFile    string
	insecure  bool
}

func (c *credentials) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.tokenFile, "token-file", "", "File with a bearer token for the server.")
	flags.StringVar(&c.userFile, "user-file", "", "File with name:password for the server; empty: the variable $"+
		UserVariable+", if it is set.")
	flags.StringVar(&c.certFile, "cert-file", "", "Client certificate for the server, in PEM.")
	flags.StringVar(&c.keyFile, "key-file", "", "Private key of --cert-file, in PEM.")
	flags.StringVar(&c.caFile, "ca-file", "", "Certificate authorities to trust for an https address, in PEM; empty: the system's.")
	flags.BoolVar(&c.insecure, "insecure-skip-tls-verify", false, "Accept any certificate of the server.")
}

// credentialFlags are the names of these flags.
func credentialFlags() (names []string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(credentials).bind(flags)
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func (c *credentials) validate() error {
	var faults []error
	if c.tokenFile != "" && c.userFile != "" {
		faults = append(faults, errors.New("--token-file and --user-file are set; must be one of them"))
	}
	if (c.certFile == "") != (c.keyFile == "") {
		faults = append(faults, errors.New("--cert-file or --key-file is set alone; must be both or neither"))
	}
	return errors.Join(faults...)
}

// authorize sets the Authorization header, if there are credentials for it.
func (c *credentials) authorize(req *http.Request) error {
	if c.tokenFile != "" {
		token, err := readSecret("--token-file", c.tokenFile)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(token, unicode.IsControl) { // no header can have it
			return fmt.Errorf("--token-file %s: must be one line of text", c.tokenFile)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	user, from := os.Getenv(UserVariable), "$"+UserVariable
	if c.userFile != "" {
		var err error
		from = "--user-file " + c.userFile
		if user, err = readSecret("--user-file", c.userFile); err != nil {
			return err
		}
	} else if user == "" {
		return nil
	}
	name, password, ok := strings.Cut(user, ":")
	if !ok || name == "" {
		return fmt.Errorf("%s: must be name:password", from)
	}
	req.SetBasicAuth(name, password)
	return nil
}

// readSecret reads a file of one line.
func readSecret(flag, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s %s: must be one line", flag, path)
	}
	return secret, nil
}

// tls is the TLS configuration for an https address.
func (c *credentials) tls() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: c.insecure}
	if c.caFile != "" {
		text, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate; must hold certificates in PEM", c.caFile)
		}
	}
	if c.certFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file %s, --key-file %s: %w", c.certFile, c.keyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
