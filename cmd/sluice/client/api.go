package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// apiOptions name the server of a metrics API.
type apiOptions struct {
	kubeconfig string
	dataDir    string
	dataDirSet bool // by the user
	server     string
	context    string // of the kubeconfig; empty: its current one
	insecure   bool
	timeout    time.Duration
}

func (o *apiOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.dataDir, "data-dir", "data",
		"Data folder of a standalone Sluice on this machine, whose kubeconfig is used. If it has none: $KUBECONFIG, else ~/.kube/config.")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Kubeconfig of a cluster, or a copy of a standalone Sluice's; overrides --data-dir, $KUBECONFIG and ~/.kube/config.")
	flags.StringVar(&o.context, "context", "", "Context of the kubeconfig; empty: its current context.")
	flags.StringVar(&o.server, "server", "", "Address of the API, https://host:port; overrides that of the kubeconfig.")
	flags.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "Accept any certificate of the server.")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "Time limit of one request.")
}

func (o *apiOptions) validate() error {
	faults := []error{checkTimeout(o.timeout)}
	if u, err := url.Parse(o.server); o.server != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		faults = append(faults, fmt.Errorf("--server is %q; must be https://host:port", metric.Mask(o.server)))
	}
	return errors.Join(faults...)
}

// checkTimeout rejects time limits that no server can meet. HTTP clients differ in the meaning of
// 0.
func checkTimeout(wait time.Duration) error {
	if wait <= 0 {
		return fmt.Errorf("--timeout is %v; must be above 0", wait)
	}
	return nil
}

// metricsAPI is a connection to a metrics API.
type metricsAPI struct {
	base       string
	port       string // that is asked, for noAnswer
	namespace  string // of the kubeconfig's context; empty: it has none
	standalone bool   // a standalone Sluice answers, by its kubeconfig
	client     *http.Client
	warnings   []string // of all responses of the group inspect.sluice.dev, each once
}

func (o *apiOptions) connect() (*metricsAPI, error) {
	cfg, namespace, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	cfg.Timeout = o.timeout
	cfg.Dial = dialer().DialContext
	cfg.UserAgent = "sluice-get"
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", redacted(cfg.Host), err)
	}
	client.CheckRedirect = stay // the token is the server's alone
	api := &metricsAPI{base: strings.TrimSuffix(cfg.Host, "/"), port: "api-address", namespace: namespace, client: client}
	api.standalone = cfg.BearerToken == AnyToken
	if o.server == "" && !api.standalone {
		api.port = kubernetesAPI
	}
	return api, nil
}

// refusal is an error response of the API.
type refusal struct {
	code    int // of HTTP
	message string
	kind    string // resource of the object that the response is about, as the server names it
	// unregistered: the API server knows no such API group.
	unregistered bool
}

func (r *refusal) Error() string { return r.message }

// isAbsent reports whether the API answered that the metric, or its object, does not exist.
func isAbsent(err error) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.code == http.StatusNotFound
}

// get returns the body of a 200 response; the message of any other is an error.
func (a *metricsAPI) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, a.notURL()
	}
	resp, body, err := a.do(req)
	if err != nil {
		return nil, err
	}
	a.noteWarnings(path, resp.Header)
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		about := &refusal{code: resp.StatusCode, message: status.Message}
		if status.Details != nil {
			about.kind = status.Details.Kind
		}
		return nil, about
	}
	if resp.StatusCode >= http.StatusInternalServerError { // of an API server that cannot reach Sluice
		return nil, &refusal{code: resp.StatusCode, message: fmt.Sprintf("the response of %s is %s", redacted(a.base), resp.Status)}
	}
	if group := groupOf(path); resp.StatusCode == http.StatusNotFound && a.port == kubernetesAPI && group != "" {
		return nil, &refusal{code: resp.StatusCode, unregistered: true,
			message: fmt.Sprintf("the cluster does not serve /apis/%s: no APIService registers it", group)}
	}
	return nil, &refusal{code: resp.StatusCode, message: fmt.Sprintf("%s is not the port of the metrics API (--api-address): the response is %s: %s", redacted(a.base), resp.Status, firstLine(body))}
}

// notURL is the error of an address that no request can be sent to. Go's has its password.
func (a *metricsAPI) notURL() error {
	return fmt.Errorf("the server's address %s is not a URL", redacted(a.base))
}

// do returns a response in JSON, with its body.
func (a *metricsAPI) do(req *http.Request) (resp *http.Response, body []byte, err error) {
	req.Header.Set("Accept", "application/json")
	if resp, err = a.client.Do(req); err != nil {
		return nil, nil, noAnswer(a.base, a.port, err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		return nil, nil, noAnswer(a.base, a.port, err)
	}
	return resp, body, nil
}

// groupOf is the API group and the version of a path; empty: it is of the core.
func groupOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if pieces := strings.SplitN(rest, "/", 3); ok && len(pieces) > 1 {
		return pieces[0] + "/" + pieces[1]
	}
	return ""
}

// noteWarnings keeps what Sluice warns of: replicas that are away.
func (a *metricsAPI) noteWarnings(path string, header http.Header) {
	if !strings.HasPrefix(path, inspectAPI) {
		return
	}
	all, _ := utilnet.ParseWarningHeaders(header["Warning"]) // a header that is none is no fault of the answer
	for _, warningHeader := range all {
		if text := metric.Visible(warningHeader.Text); !slices.ContainsFunc(a.warnings,
			func(known string) bool { return sameWarning(known, text) }) {
			a.warnings = append(a.warnings, text)
		}
	}
}

// sameWarning compares warnings without the time in them: "replica b has not been heard for 37s: ...".
func sameWarning(a, b string) bool {
	before, _, _ := strings.Cut(a, " for ")
	return strings.HasPrefix(b, before+" for ") || a == b
}

// measured is one value of a response.
type measured struct {
	about  string // the object, or the label set of an external metric
	metric string
	value  string
	number float64
	window time.Duration // 0: none
	at     time.Time
}

// read gets a list of values, sorted by object or label set.
func (a *metricsAPI) read(ctx context.Context, path string) ([]measured, error) {
	body, err := a.get(ctx, path)
	if err != nil {
		return nil, err
	}
	values, err := a.decode(path, body)
	byObject(values)
	return values, err
}

func (a *metricsAPI) decode(path string, body []byte) ([]measured, error) {
	decode := decodeCustom
	if strings.HasPrefix(path, ExternalAPI) {
		decode = decodeExternal
	}
	values, err := decode(body)
	if err != nil {
		return nil, fmt.Errorf("response of %s: %w", redacted(a.base), err)
	}
	return values, nil
}

func byObject(values []measured) {
	slices.SortStableFunc(values, func(a, b measured) int { return strings.Compare(a.about, b.about) })
}

func decodeCustom(body []byte) ([]measured, error) {
	var list custom.MetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	values := make([]measured, len(list.Items))
	for i, item := range list.Items {
		values[i] = measured{
			about:  strings.ToLower(item.DescribedObject.Kind) + "/" + item.DescribedObject.Name,
			metric: item.Metric.Name,
			value:  item.Value.String(), number: item.Value.AsApproximateFloat64(),
			window: seconds(item.WindowSeconds), at: item.Timestamp.Time,
		}
	}
	return values, nil
}

func decodeExternal(body []byte) ([]measured, error) {
	var list external.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	values := make([]measured, len(list.Items))
	for i, item := range list.Items {
		values[i] = measured{
			about:  printLabels(item.MetricLabels),
			metric: item.MetricName,
			value:  item.Value.String(), number: item.Value.AsApproximateFloat64(),
			window: seconds(item.WindowSeconds), at: item.Timestamp.Time,
		}
	}
	return values, nil
}

func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// noLabels stands for an empty set of labels, as in kubectl.
const noLabels = "<none>"

func printLabels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	sort.Strings(pairs)
	if len(pairs) == 0 {
		return noLabels
	}
	return strings.Join(pairs, ",")
}
