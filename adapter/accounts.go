package adapter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/metric"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Accounts asks the cluster's API server who pushes and what that one may. It keeps no answer.
//
// It does not stand on k8s.io/apiserver's delegating authenticator and authorizer, as the metrics APIs do: the first
// takes an answer without audiences for one about ours, while it is about an API server's token (TokenReviewStatus in
// k8s.io/api), and both keep answers of their own, so that one could be 20 s old.
type Accounts struct {
	audience string
	// Each has a bound of its own on questions a second: anybody can make up tokens.
	unknownTokens, knownTokens, accessReviews kubernetes.Interface
}

// Bounds on questions a second, all senders together: about tokens of which nothing good is known, and about those that were
// good, of which each pod that pushes has one and is asked about every ten seconds.
const (
	unknownTokensPerSecond, unknownTokensBurst = 100, 200
	knownTokensPerSecond, knownTokensBurst     = 500, 1000
)

// NewAccounts makes the clients. The API server is not asked yet. The audience is what tokens must be meant for.
func NewAccounts(api *rest.Config, audience string) (*Accounts, error) {
	a := &Accounts{audience: audience}
	for _, one := range []struct {
		client    *kubernetes.Interface
		perSecond float32
		burst     int
	}{
		{&a.unknownTokens, unknownTokensPerSecond, unknownTokensBurst},
		{&a.knownTokens, knownTokensPerSecond, knownTokensBurst},
		{&a.accessReviews, decisionsPerSecond, decisionBurst},
	} {
		config := rest.CopyConfig(api)
		config.QPS, config.Burst, config.RateLimiter, config.Timeout = one.perSecond, one.burst, nil, decisionTimeout
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client of the API server: %w", err)
		}
		*one.client = client
	}
	return a, nil
}

// What the API server adds to a user who showed a token of a service account (k8s.io/apiserver/pkg/authentication/serviceaccount).
const (
	podUIDExtra       = "authentication.kubernetes.io/pod-uid"
	credentialIDExtra = "authentication.kubernetes.io/credential-id"
	accountPrefix     = "system:serviceaccount:"
)

// Who says whom a token names that is meant for our audience; nil: nobody, and why. Known: it was good a moment ago.
func (a *Accounts) Authenticate(ctx context.Context, token string, known bool) (*metric.Principal, string, error) {
	client := a.unknownTokens
	if known {
		client = a.knownTokens
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{
		Spec: authentication.TokenReviewSpec{Token: token, Audiences: []string{a.audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("review a token: %w", err)
	}
	switch status := &review.Status; {
	case !status.Authenticated:
		return nil, fmt.Sprintf("the token is not one of the cluster's for the audience %q, or it is over", a.audience), nil
	case !slices.Contains(status.Audiences, a.audience):
		return nil, fmt.Sprintf("the token is for the API server; want one for the audience %q", a.audience), nil
	default:
		return accountOf(&status.User), "", nil
	}
}

// accountOf leaves out which token it was: each new one of a pod would be another account.
func accountOf(u *authentication.UserInfo) *metric.Principal {
	is := &metric.Principal{User: u.Username, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if key == credentialIDExtra {
			continue
		}
		if is.Extra == nil {
			is.Extra = map[string][]string{}
		}
		is.Extra[key] = values
	}
	if rest, ok := strings.CutPrefix(u.Username, accountPrefix); ok {
		is.Namespace, is.Name, _ = strings.Cut(rest, ":")
		if uid := u.Extra[podUIDExtra]; len(uid) == 1 {
			is.PodUID = uid[0]
		}
	}
	return is
}

// May says whether an account has a right.
func (a *Accounts) Authorize(ctx context.Context, who *metric.Principal, r metric.Right) (bool, error) {
	spec := authorization.SubjectAccessReviewSpec{
		User: who.User, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: string(r.Verb), Group: metric.RightsGroup, Resource: metric.RightsResource, Namespace: r.Namespace,
		},
	}
	for key, values := range who.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorization.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	review, err := a.accessReviews.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the access of %q: %w", who.User, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
