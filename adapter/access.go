package adapter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/internal/connlimit"
	"github.com/sluice-metrics/sluice/internal/fair"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// access authenticates and authorizes the clients of the metrics APIs.
type access struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// proxies identifies front proxies; nil: none is trusted.
	proxies *authenticatorfactory.RequestHeaderConfig
	// ready reports whether clients can be authenticated. nil: always.
	ready func() (bool, string)
	// run keeps the authenticators up to date until its context ends. nil: nothing to do.
	run func(context.Context)
	// endNamespace makes cached decisions about a namespace count no more. nil: nothing is cached.
	endNamespace func(namespace string)
}

// anonymousAccess lets anyone read: standalone there is no API server to ask.
func anonymousAccess() access {
	return access{
		authenticator: anonymous.NewAuthenticator(nil),
		authorizer:    authorizerfactory.NewAlwaysAllowAuthorizer(),
	}
}

// quietAuthenticator keeps failed authentications out of the log: the library would log each as an
// error. Failures of the API server are logged elsewhere.
type quietAuthenticator struct {
	authenticator.Request
	logger *slog.Logger
}

// AuthenticateRequest implements authenticator.Request. Errors and rejections both become 401.
func (q quietAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := q.Request.AuthenticateRequest(r)
	if err != nil {
		q.logger.Debug("not authenticated", "from", r.RemoteAddr, "reason", err)
		return nil, false, nil
	}
	return response, ok, nil
}

// anonymous reports whether clients are not authenticated.
func (a access) anonymous() bool { return a.proxies == nil }

// fromProxy reports whether a request's connection is of a client of the front proxies' authority. It decides nothing
// about who the request is for.
func (a access) fromProxy(r *http.Request) bool { return a.isProxy(r.TLS) }

// isProxy is fromProxy for a connection. Until the authority is known it is false.
func (a access) isProxy(conn *tls.ConnectionState) bool {
	if a.proxies == nil || conn == nil || len(conn.PeerCertificates) == 0 {
		return false
	}
	options, known := a.proxies.CAContentProvider.VerifyOptions()
	if !known {
		return false
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	_, err := conn.PeerCertificates[0].Verify(options)
	return err == nil
}

// applyTo sets the access in the server's configuration, after SecureServing.
func (a access) applyTo(c *genericapiserver.Config) error {
	c.Authentication.Authenticator = a.authenticator
	c.Authorization.Authorizer = a.authorizer
	if a.proxies == nil {
		return nil
	}
	c.Authentication.RequestHeaderConfig = a.proxies
	return c.Authentication.ApplyClientCert(a.proxies.CAContentProvider, c.SecureServing)
}

// decisionTTL is how long a decision of the API server is cached, allowed or not. A revoked right
// stays usable that long. It is the default of Kubernetes' own servers. Tests on real sockets, which
// may take any time, raise it.
var decisionTTL = 10 * time.Second

const (
	// decisionTimeout bounds one request to the API server.
	decisionTimeout = 10 * time.Second
	// decisionsPerSecond and decisionBurst are far above client-go's defaults, which would limit
	// the rate of answers.
	decisionsPerSecond, decisionBurst = 200, 400
	// maxTokenReviews is the number of tokens that are checked at once, of which decisionsPerSecond pass.
	maxTokenReviews = 32
)

// delegatedAccess delegates to the cluster's API server: authentication of tokens (TokenReview), of
// the front proxy (headers under a client certificate), and authorization (SubjectAccessReview). It
// sends no request yet.
//
// It is built from the parts of k8s.io/apiserver's DelegatingAuthenticationOptions and
// DelegatingAuthorizationOptions. Those take a kubeconfig file instead of a rest.Config, and fail
// if the API server is unavailable at the start.
func delegatedAccess(cfg Config, api *rest.Config, logger *slog.Logger) (access, error) {
	watching := rest.CopyConfig(api)
	watching.QPS, watching.Burst, watching.RateLimiter = decisionsPerSecond, decisionBurst, nil
	client, err := kubernetes.NewForConfig(watching)
	if err != nil {
		return access{}, fmt.Errorf("make a client of the API server: %w", err)
	}
	asking := rest.CopyConfig(watching) // a watch has no timeout
	asking.Timeout = decisionTimeout
	tokens, reviews, err := reviewClients(asking)
	if err != nil {
		return access{}, err
	}
	proxy, err := newFrontProxy(client, cfg.AnyProxyName, logger)
	if err != nil {
		return access{}, err
	}
	a := access{proxies: proxy.requestHeaders(), ready: proxy.ready, run: proxy.run}
	rights, err := newRights(reviews)
	if err != nil {
		return access{}, err
	}
	who, err := newIdentities(tokens, a.proxies, rights)
	if err != nil {
		return access{}, err
	}
	a.authenticator = quietAuthenticator{who, logger}
	a.endNamespace = rights.endNamespace
	// The kubelet's probes need no right; their answers are yes or no.
	probes, err := path.NewAuthorizer([]string{"/healthz", "/livez", "/readyz"})
	if err != nil {
		return access{}, fmt.Errorf("allow probes: %w", err)
	}
	// Members of system:masters may do anything in Kubernetes; the aggregator requests discovery as
	// one.
	a.authorizer = union.New(authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), probes, rights)
	return a, nil
}

// identities are the API server's verdicts on tokens, which are cached, except for a while those on service accounts of
// a namespace that was deleted: its tokens are none of a later namespace's of the name.
//
// The library goes on with the review of a token for up to 30 s once its client is gone. So that cancelled requests don't
// pile up reviews, the place of one is taken until it ends, and addresses take turns.
type identities struct {
	cached, uncached authenticator.Request
	rights           *rights
	places           *fair.Turns[netip.Prefix]
}

func newIdentities(reviews kubernetes.Interface, proxies *authenticatorfactory.RequestHeaderConfig,
	rights *rights) (*identities, error) {
	i := &identities{rights: rights, places: fair.NewTurns[netip.Prefix](maxTokenReviews, maxTokenReviews)}
	for to, ttl := range map[*authenticator.Request]time.Duration{&i.cached: decisionTTL, &i.uncached: 0} {
		var err error
		*to, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
			// A client without credentials is system:anonymous, and the API server decides about it.
			Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: true},
			TokenAccessReviewClient:  reviews.AuthenticationV1(),
			TokenAccessReviewTimeout: decisionTimeout,
			WebhookRetryBackoff:      reviewBackoff(),
			CacheTTL:                 ttl,
			RequestHeaderConfig:      proxies,
		}.New()
		if err != nil {
			return nil, fmt.Errorf("delegate authentication: %w", err)
		}
	}
	return i, nil
}

// AuthenticateRequest implements authenticator.Request.
func (i *identities) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if showsToken(r) {
		share := connlimit.Prefix(r.RemoteAddr)
		if err := i.places.Await(r.Context(), share); err != nil {
			return nil, false, err
		}
		defer i.places.Give(share)
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	if !i.rights.anyLately() {
		return i.cached.AuthenticateRequest(r)
	}
	header := r.Header.Clone() // an authenticator removes what it has accepted
	response, ok, err := i.cached.AuthenticateRequest(r)
	if err != nil || !ok {
		return response, ok, err
	}
	account, is := strings.CutPrefix(response.User.GetName(), accountPrefix)
	if namespace, _, _ := strings.Cut(account, ":"); !is || !i.rights.lately(namespace) {
		return response, ok, err
	}
	r.Header = header
	return i.uncached.AuthenticateRequest(r)
}

// showsToken reports whether a request may have a token, in either of the headers that the library reads.
func showsToken(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Sec-WebSocket-Protocol") != ""
}

// rights are decisions of the API server that are cached, except for a while those about a namespace that was
// deleted: nobody's right in it is one in a later namespace of the name.
type rights struct {
	cached, uncached authorizer.Authorizer
	keep             time.Duration // how long a decision of before may be cached

	mu    sync.Mutex
	ended map[string]time.Time // until when namespaces are not looked up in the cache
}

func newRights(reviews kubernetes.Interface) (*rights, error) {
	r := &rights{keep: decisionTTL + decisionTimeout, ended: map[string]time.Time{}}
	for to, ttl := range map[*authorizer.Authorizer]time.Duration{&r.cached: decisionTTL, &r.uncached: 0} {
		var err error
		*to, err = authorizerfactory.DelegatingAuthorizerConfig{
			SubjectAccessReviewClient: reviews.AuthorizationV1(),
			AllowCacheTTL:             ttl,
			DenyCacheTTL:              ttl,
			WebhookRetryBackoff:       reviewBackoff(),
		}.New()
		if err != nil {
			return nil, fmt.Errorf("delegate authorization: %w", err)
		}
	}
	return r, nil
}

func (r *rights) endNamespace(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.ended, func(_ string, until time.Time) bool { return now.After(until) })
	r.ended[namespace] = now.Add(r.keep)
}

func (r *rights) lately(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ended := r.ended[namespace]
	return ended && time.Now().Before(until)
}

// anyLately reports whether a namespace may have ended lately.
func (r *rights) anyLately() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended) > 0
}

// Authorize implements authorizer.Authorizer.
func (r *rights) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if r.lately(a.GetNamespace()) {
		return r.uncached.Authorize(ctx, a)
	}
	return r.cached.Authorize(ctx, a)
}

// reviewClients are clients for TokenReviews and SubjectAccessReviews. Each has its own rate limit:
// made-up tokens must not delay the clients of the front proxy. See rightsPace for that of rights.
func reviewClients(asking *rest.Config) (tokens, rights kubernetes.Interface, err error) {
	paced := rest.CopyConfig(asking)
	paced.RateLimiter = newRightsPace()
	if tokens, err = kubernetes.NewForConfig(asking); err == nil {
		rights, err = kubernetes.NewForConfig(paced)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return tokens, rights, nil
}

// reviewBackoff repeats a review that the API server could not answer: five times within 4 s.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// checkPolicies checks an external metric. The selector is the reader's own; nil: none.
func checkPolicies(policies Policies, namespace, name string, selector labels.Selector, reader metric.Reader) error {
	if policies == nil {
		return nil
	}
	return policies.Check(policy.Request{Namespace: namespace, Expression: metric.ParseExpression(name),
		Selector: requirementsOf(selector), Reader: reader})
}

// readerOf is the user of a request.
func readerOf(ctx context.Context) metric.Reader {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return metric.Reader{}
	}
	return metric.Reader{User: who.GetName(), Groups: who.GetGroups()}
}

// requirementsOf are a selector's requirements in the words of policies.
func requirementsOf(selector labels.Selector) []policy.Requirement {
	if selector == nil {
		return nil
	}
	all, selectable := selector.Requirements()
	if !selectable {
		return []policy.Requirement{{Operator: policy.In}} // selects nothing
	}
	list := make([]policy.Requirement, 0, len(all))
	for _, r := range all {
		list = append(list, policy.Requirement{Key: r.Key(), Operator: policyOperators[r.Operator()],
			Values: r.ValuesUnsorted()})
	}
	return list
}

// policyOperators translates operators. One that is missing here would not restrict a request, and
// so never allow more.
var policyOperators = map[selection.Operator]policy.Operator{
	selection.In: policy.In, selection.Equals: policy.In, selection.DoubleEquals: policy.In,
	selection.NotIn: policy.NotIn, selection.NotEquals: policy.NotIn,
	selection.Exists: policy.Exists, selection.DoesNotExist: policy.DoesNotExist,
	selection.GreaterThan: policy.GreaterThan, selection.LessThan: policy.LessThan,
}
