package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

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
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// access decides who may read.
type access struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// proxies is what tells a front proxy, nil where none is believed.
	proxies *authenticatorfactory.RequestHeaderConfig
	// ready says whether who is asking can be told. nil: always.
	ready func() (bool, string)
	// run keeps what is known of the deciders up to date until its context ends. nil: nothing to do.
	run func(context.Context)
}

// everybody may read: there is no cluster to ask.
func anonymousAccess() access {
	return access{
		authenticator: anonymous.NewAuthenticator(nil),
		authorizer:    authorizerfactory.NewAlwaysAllowAuthorizer(),
	}
}

// quiet keeps from the log who could not show who they are: the library would log each such request as an error.
// What the API server could not answer is logged elsewhere.
type quietAuthenticator struct {
	authenticator.Request
	logger *slog.Logger
}

// AuthenticateRequest implements authenticator.Request. Both a fault and a plain no are answered with 401.
func (q quietAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := q.Request.AuthenticateRequest(r)
	if err != nil {
		q.logger.Debug("not authenticated", "from", r.RemoteAddr, "reason", err)
		return nil, false, nil
	}
	return response, ok, nil
}

// open says that nobody is asked who they are.
func (a access) anonymous() bool { return a.proxies == nil }

// applyTo puts the decisions into the server's configuration, whose SecureServing is there already.
func (a access) applyTo(c *genericapiserver.Config) error {
	c.Authentication.Authenticator = a.authenticator
	c.Authorization.Authorizer = a.authorizer
	if a.proxies == nil {
		return nil
	}
	c.Authentication.RequestHeaderConfig = a.proxies
	return c.Authentication.ApplyClientCert(a.proxies.CAContentProvider, c.SecureServing)
}

const (
	// decisionTTL is how long the API server's word on a token or on a right is kept, yes and no alike: so long
	// it takes until a right that was taken away is gone. These are the defaults of Kubernetes' own servers.
	decisionTTL = 10 * time.Second
	// decisionTimeout bounds one question to the API server.
	decisionTimeout = 10 * time.Second
	// decisionsPerSecond and decisionBurst are far above client-go's defaults, which would bound what is answered.
	decisionsPerSecond, decisionBurst = 200, 400
)

// delegated lets the cluster's API server decide: who a token is (TokenReview), whether its front proxy speaks
// (headers under a client certificate), and who may read what (SubjectAccessReview). Nothing is asked here yet.
//
// It is made of the parts of k8s.io/apiserver's DelegatingAuthenticationOptions and DelegatingAuthorizationOptions:
// these take a kubeconfig file, no rest.Config, and give up at start where the API server is away.
func delegatedAccess(cfg Config, api *rest.Config, logger *slog.Logger) (access, error) {
	watching := rest.CopyConfig(api)
	watching.QPS, watching.Burst, watching.RateLimiter = decisionsPerSecond, decisionBurst, nil
	client, err := kubernetes.NewForConfig(watching)
	if err != nil {
		return access{}, fmt.Errorf("make a client of the API server: %w", err)
	}
	asking := rest.CopyConfig(watching) // a watch must not end with it
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
	asked, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		// Who shows nothing is system:anonymous, and the API server says what that one may.
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: true},
		TokenAccessReviewClient:  tokens.AuthenticationV1(),
		TokenAccessReviewTimeout: decisionTimeout,
		WebhookRetryBackoff:      reviewBackoff(),
		CacheTTL:                 decisionTTL,
		RequestHeaderConfig:      a.proxies,
	}.New()
	if err != nil {
		return access{}, fmt.Errorf("delegate authentication: %w", err)
	}
	a.authenticator = quietAuthenticator{asked, logger}
	rights, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews.AuthorizationV1(),
		AllowCacheTTL:             decisionTTL,
		DenyCacheTTL:              decisionTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}.New()
	if err != nil {
		return access{}, fmt.Errorf("delegate authorization: %w", err)
	}
	// The kubelet's probes ask nobody, and say no more than yes or no.
	probes, err := path.NewAuthorizer([]string{"/healthz", "/livez", "/readyz"})
	if err != nil {
		return access{}, fmt.Errorf("allow probes: %w", err)
	}
	// The API server allows system:masters everything without looking; its aggregator asks for discovery as one.
	a.authorizer = union.New(authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), probes, rights)
	return a, nil
}

// deciders are clients that ask about tokens and about rights, each with a bound of its own: anybody can make up tokens, and
// whom the front proxy speaks for must not wait behind them.
func reviewClients(asking *rest.Config) (tokens, rights kubernetes.Interface, err error) {
	if tokens, err = kubernetes.NewForConfig(asking); err == nil {
		rights, err = kubernetes.NewForConfig(asking)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return tokens, rights, nil
}

// askAgain is how a question is repeated that the API server could not answer: five times within 4 s.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}
