package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/cmd/sluice/command"
	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// pushValue pushes one value, to the path that it is read from.
func pushValue(cmd *cobra.Command, o pushOptions, args []string, faults []error) error {
	if len(args) != 2 {
		faults = append(faults, fmt.Errorf("%s; must be METRIC and VALUE, as in: sluice push --gauge queue_depth 42",
			command.CountArguments(len(args))))
		args = []string{"", ""}
	} else {
		faults = append(faults, checkName([]byte(args[0]), args[0]))
	}
	target, err := o.target(args[0])
	if err := command.Usage(append(faults, err, checkTimeout(o.timeout), o.shown.validate())...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	// POST adds: to a gauge it would be a shift.
	method := http.MethodPost
	if o.gauge {
		method = http.MethodPut
	}
	answer, err := o.shown.send(ctx, method, target, args[1])
	for _, warning := range answer.warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", warning)
	}
	if err != nil {
		return err
	}
	if answer.Pending == 1 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s to %s is pending: %s\n", args[1], o.about(args[0]),
			metric.Visible(answer.Message))
		return nil
	}
	if answer.Applied != 1 {
		return fmt.Errorf("the server applied nothing to %s: the metric is ignored there", o.about(args[0]))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "applied %s to %s\n", args[1], o.about(args[0]))
	return nil
}

// about names the target in words.
func (o *pushOptions) about(name string) string {
	s := name + " of "
	if o.object == "" {
		s = "external " + name
	}
	s += o.object
	if o.namespace != "" {
		s += " in " + o.namespace
	}
	return s
}

// target is the URL of the value.
func (o *pushOptions) target(name string) (string, error) {
	var faults []error
	base, err := url.Parse(o.http)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		faults = append(faults, fmt.Errorf("--http is %q; must be http://host:port or https://host:port", metric.Mask(o.http)))
	}
	kind, err := o.kind()
	faults = append(faults, err)
	values := url.Values{"type": {kind}}
	for _, label := range o.labels {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			faults = append(faults, fmt.Errorf("--label is %q; must be key=value", label))
		}
		values.Add("label", label)
	}
	if o.ttl != 0 {
		values.Set("ttl", o.ttl.String())
	}
	if o.sync {
		values.Set("sync", "true")
	}
	path, err := o.path(name)
	if err := errors.Join(append(faults, err)...); err != nil {
		return "", err
	}
	return strings.TrimSuffix(o.http, "/") + path + "?" + values.Encode(), nil
}

// path is the path of the object, for pushing and for reading.
func (o *pushOptions) path(name string) (string, error) {
	path := "/v1"
	if o.object == "" {
		return path + o.inNamespace() + "/external/" + url.PathEscape(name), nil
	}
	resource, object, err := splitObject(o.object, "")
	if err != nil {
		return "", fmt.Errorf("--object %w", err)
	}
	k := kindOf(resource)
	switch {
	case k.known && k.namespaced && o.namespace == "":
		return "", fmt.Errorf("--object is %q, which is in a namespace; must have --namespace (-n)", o.object)
	case k.known && !k.namespaced && o.namespace != "":
		return "", fmt.Errorf("--object is %q, which is in no namespace; must be without --namespace", o.object)
	case k.canonical == "namespaces":
		return path + "/namespaces/" + url.PathEscape(object) + "/metrics/" + url.PathEscape(name), nil
	}
	return path + o.inNamespace() + "/" + url.PathEscape(k.resource) + "/" + url.PathEscape(object) + "/" +
		url.PathEscape(name), nil
}

// inNamespace is the namespace part of the path.
func (o *pushOptions) inNamespace() string {
	if o.namespace == "" {
		return ""
	}
	return "/namespaces/" + url.PathEscape(o.namespace)
}

// pushAnswer is a response of the push port.
type pushAnswer struct {
	Applied int    `json:"applied"`
	Pending int    `json:"pending"`
	Message string `json:"message"`
	Error   struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"error"`
	warnings []string
}

// send sends the request. The server's message in a response of failure is the error.
func (c *credentials) send(ctx context.Context, method, target, body string) (pushAnswer, error) {
	var answer pushAnswer
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return answer, err
	}
	if err := c.authorize(req); err != nil {
		return answer, err
	}
	config, err := c.tls()
	if err != nil {
		return answer, err
	}
	client := http.Client{CheckRedirect: stay, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
		DialContext: dialer().DialContext, TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	base := req.URL.Scheme + "://" + req.URL.Host
	resp, err := client.Do(req)
	if err != nil {
		return answer, noAnswer(base, "http-address", err)
	}
	defer resp.Body.Close()
	warned, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"]) // a header that is none is no fault of the answer
	for _, warningHeader := range warned {
		answer.warnings = append(answer.warnings, metric.Visible(warningHeader.Text))
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return answer, fmt.Errorf("nothing was pushed: %s redirects to %s; must have --http with the address that takes pushes",
			base, firstLine([]byte(to)))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer, noAnswer(base, "http-address", err)
	}
	if json.Unmarshal(text, &answer) != nil || (resp.StatusCode != http.StatusOK &&
		resp.StatusCode != http.StatusAccepted && answer.Error.Message == "") {
		return answer, fmt.Errorf("%s is not Sluice's port for HTTP push (--http-address): the response is %s: %s", base,
			resp.Status, firstLine(text))
	}
	if answer.Error.Message == "" {
		return answer, nil
	}
	err = fmt.Errorf("%s (%s)", answer.Error.Message, answer.Error.Reason)
	if resp.StatusCode == http.StatusBadRequest && senseless[answer.Error.Reason] {
		return answer, command.Usage(err)
	}
	return answer, err
}

// stay follows no redirect: a PUT or POST may become a GET, and the credentials were shown already.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// senseless are the reasons of a 400 response for values that no server accepts, such as a value
// that is not a number. An object that this sender may not describe is a 403.
var senseless = map[string]bool{
	metric.Malformed.String(): true, metric.BadName.String(): true, metric.BadValue.String(): true,
	metric.BadRate.String(): true, metric.TooLong.String(): true, metric.Identity.String(): true,
}

// firstLine is the beginning of an unexpected response.
func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return metric.Visible(line[:min(len(line), 200)])
}

// lifetime is a flag of a series' lifetime: a duration of at least 1s, or "forever". 0: not given.
type lifetime time.Duration

var errLifetime = errors.New("must be a duration of at least 1s, as in 90s, 10m or 24h, or forever")

// Set implements pflag.Value.
func (l *lifetime) Set(s string) error {
	if s == "forever" {
		*l = lifetime(metric.Forever)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return errLifetime
	}
	*l = lifetime(d)
	return nil
}

func (l *lifetime) String() string {
	switch d := time.Duration(*l); d {
	case 0:
		return ""
	case metric.Forever:
		return "forever"
	default:
		return d.String()
	}
}

// Type implements pflag.Value.
func (l *lifetime) Type() string { return "duration|forever" }
