package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// KubeconfigName is the file in the data folder by which kubectl and the clients reach a standalone Sluice.
const KubeconfigName = "kubeconfig"

// AnyToken is the token in that file, which keeps kubectl from asking for a password. A standalone
// server ignores it. It tells such a file from a cluster's.
const AnyToken = "anybody"

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
		faults = append(faults, fmt.Errorf("--server is %q; must be https://host:port", o.server))
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
		return nil, fmt.Errorf("client for %s: %w", cfg.Host, err)
	}
	api := &metricsAPI{base: strings.TrimSuffix(cfg.Host, "/"), port: "api-address", namespace: namespace, client: client}
	api.standalone = cfg.BearerToken == AnyToken
	if o.server == "" && !api.standalone {
		api.port = kubernetesAPI
	}
	return api, nil
}

// restConfig reads the applicable kubeconfig and overrides it by flags. With --server and
// --insecure-skip-tls-verify no kubeconfig is needed. The namespace is that of the kubeconfig's
// context, if it has one.
func (o *apiOptions) restConfig() (cfg *rest.Config, namespace string, err error) {
	files, missing := o.kubeconfigs()
	cfg = &rest.Config{}
	if missing != nil && (o.server == "" || !o.insecure) {
		return nil, "", missing
	} else if missing == nil {
		rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
		loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
			&clientcmd.ConfigOverrides{CurrentContext: o.context})
		cfg, err = loaded.ClientConfig()
		if err != nil {
			return nil, "", fmt.Errorf("kubeconfig %s: %w", strings.Join(files, ", "), err)
		}
		if raw, err := loaded.RawConfig(); err == nil {
			namespace = namespaceOfContext(raw, o.context)
		}
	}
	if o.server != "" {
		cfg.Host = o.server
	}
	if o.insecure {
		cfg.Insecure, cfg.CAData, cfg.CAFile = true, nil, ""
	}
	return cfg, namespace, nil
}

func namespaceOfContext(raw clientcmdapi.Config, context string) string {
	if context == "" {
		context = raw.CurrentContext
	}
	if c := raw.Contexts[context]; c != nil {
		return c.Namespace
	}
	return ""
}

// kubeconfigs lists the files to read: --kubeconfig, else the data folder's, else $KUBECONFIG, else
// ~/.kube/config, as kubectl does. With --data-dir, the last two are not read. The error names the places.
func (o *apiOptions) kubeconfigs() ([]string, error) {
	const wanted = "must have --data-dir of a Sluice that runs here, --kubeconfig, or --server with --insecure-skip-tls-verify"
	if o.kubeconfig != "" {
		if hidden := hiddenBy(o.kubeconfig); hidden != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w; must be a file that this user may read", o.kubeconfig, hidden)
		}
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig %s does not exist; %s", o.kubeconfig, wanted)
		}
		return []string{o.kubeconfig}, nil
	}
	file := filepath.Join(o.dataDir, KubeconfigName)
	if _, err := os.Stat(file); err == nil {
		return []string{file}, nil
	}
	inherited := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if inherited == "" {
		inherited = homeKubeconfig()
	}
	if hidden := hiddenBy(file); hidden != nil && (o.dataDirSet || inherited == "") {
		return nil, fmt.Errorf("--data-dir %s: cannot look for a %s: %w; must have --kubeconfig with a copy that this user may read", o.dataDir, KubeconfigName, hidden)
	}
	if o.dataDirSet {
		return nil, fmt.Errorf("--data-dir %s has no %s; %s", o.dataDir, KubeconfigName, wanted)
	}
	if inherited == "" {
		return nil, fmt.Errorf("no kubeconfig: %s and ~/.kube/config do not exist, and $KUBECONFIG is empty; %s",
			file, wanted)
	}
	var there []string
	for _, one := range filepath.SplitList(inherited) {
		if _, err := os.Stat(one); err == nil {
			there = append(there, one)
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("no kubeconfig: %s does not exist, nor does $KUBECONFIG (%s); %s", file, inherited, wanted)
	}
	return there, nil
}

// homeKubeconfig is kubectl's file in the user's home; empty: there is none.
func homeKubeconfig() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	file := filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// hiddenBy is the reason why a file's existence cannot be checked; nil if it can. Most often the
// folder is another user's, such as a server's data folder.
func hiddenBy(path string) error {
	_, err := os.Stat(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	var whole *fs.PathError
	if errors.As(err, &whole) {
		return whole.Err
	}
	return err
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
		return nil, err
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
		return nil, &refusal{code: resp.StatusCode, message: fmt.Sprintf("the response of %s is %s", a.base, resp.Status)}
	}
	if group := groupOf(path); resp.StatusCode == http.StatusNotFound && a.port == kubernetesAPI && group != "" {
		return nil, &refusal{code: resp.StatusCode, unregistered: true,
			message: fmt.Sprintf("the cluster does not serve /apis/%s: no APIService registers it", group)}
	}
	return nil, &refusal{code: resp.StatusCode, message: fmt.Sprintf("%s is not the port of the metrics API (--api-address): the response is %s: %s", a.base, resp.Status, firstLine(body))}
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
		return nil, fmt.Errorf("response of %s: %w", a.base, err)
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
