package adapter

import (
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

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
