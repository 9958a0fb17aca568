package adapter

import (
	"context"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
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
