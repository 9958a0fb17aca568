package adapter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Accounts authenticates and authorizes HTTP pushes with the cluster's API server. It caches
// nothing.
//
// It does not use k8s.io/apiserver's delegating authenticator and authorizer, as the metrics APIs
// do. The authenticator accepts an answer without audiences, which is about an API server's token
// (TokenReviewStatus in k8s.io/api). And both cache answers, which could then be 20 s old.
type Accounts struct {
	audience   string
	namespaces Namespaces
	// Each client has its own rate limit, because anyone can make up tokens.
	unknownTokens, knownTokens, accessReviews kubernetes.Interface
}

// Namespaces knows when namespaces were created.
type Namespaces interface {
	// Namespace returns when a namespace was created; the zero time: there is none. It is not known if namespaces
	// are not watched.
	Namespace(name string) (uid string, created time.Time, known bool)
}

// Rate limits of reviews, for all senders: of unknown tokens, and of tokens that were valid before.
// Each pushing pod has one of those, reviewed every ten seconds.
const (
	unknownTokensPerSecond, unknownTokensBurst = 100, 200
	knownTokensPerSecond, knownTokensBurst     = 500, 1000
)

// NewAccounts makes the clients, without a request to the API server. Tokens must be for the
// audience.
func NewAccounts(api *rest.Config, audience string, namespaces Namespaces) (*Accounts, error) {
	a := &Accounts{audience: audience, namespaces: namespaces}
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
		config.RateLimiter, config.Timeout = newReviewPace(one.perSecond, one.burst, oneShare), decisionTimeout
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client of the API server: %w", err)
		}
		*one.client = client
	}
	return a, nil
}

// Fields that the API server adds to the user of a service account's token
// (k8s.io/apiserver/pkg/authentication/serviceaccount).
const (
	podUIDExtra       = "authentication.kubernetes.io/pod-uid"
	credentialIDExtra = "authentication.kubernetes.io/credential-id"
	accountPrefix     = "system:serviceaccount:"
	// nodeExtra names the node of the pod that a token is bound to, from Kubernetes 1.30 on.
	nodeExtra = "authentication.kubernetes.io/node-name"
)

// Authenticate returns the principal of a token for the audience, or nil and the reason. known: the
// token was valid a moment ago.
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
		return nil, fmt.Sprintf("the token is invalid or expired; must be a token of this cluster for the audience %q",
			a.audience), nil
	case !slices.Contains(status.Audiences, a.audience):
		return nil, fmt.Sprintf("the token is for the API server; must be for the audience %q", a.audience), nil
	}
	is := accountOf(&review.Status.User)
	if a.isFormer(token, is.Namespace) {
		return nil, fmt.Sprintf("the token was issued before its namespace %q was created: it is of the former one of that name",
			is.Namespace), nil
	}
	return is, "", nil
}

// issueSlack allows for API servers whose clocks differ.
const issueSlack = 2 * time.Second

// isFormer reports whether a service account's token, which was reviewed, is older than the namespace that
// has its namespace's name now: the API server takes it for valid for ten seconds after its end, if it has
// just reviewed it, such as for another replica. An old-fashioned one, from a Secret, does not say when it
// was issued.
func (a *Accounts) isFormer(token, namespace string) bool {
	if namespace == "" {
		return false
	}
	_, created, known := a.namespaces.Namespace(namespace)
	issued := claimsOf(token).issued()
	return known && !created.IsZero() && !issued.IsZero() && issued.Before(created.Add(-issueSlack))
}

// tokenClaims are what a token says of itself.
type tokenClaims struct {
	IssuedAt float64 `json:"iat"`
	Expires  float64 `json:"exp"`
}

// claimsOf reads a token. What it does not say is 0.
func claimsOf(token string) (claims tokenClaims) {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return tokenClaims{}
	}
	return claims
}

// issued is when the token was issued; the zero time: it does not say.
func (c tokenClaims) issued() time.Time {
	if c.IssuedAt <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(c.IssuedAt), 0)
}

// expires is when the token ends; the zero time: it does not say.
func (c tokenClaims) expires() time.Time {
	if c.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// accountOf leaves out the token's ID: each new token of a pod would be another account.
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

// Authorize reports whether an account has a right. Who may read all series may get samples.
func (a *Accounts) Authorize(ctx context.Context, who *metric.Principal, r metric.Right) (bool, error) {
	may, err := a.reviewAccess(ctx, who, r)
	if may || err != nil || r.Verb != metric.Get || r.Series {
		return may, err
	}
	r.Series = true
	return a.reviewAccess(ctx, who, r)
}

func (a *Accounts) reviewAccess(ctx context.Context, who *metric.Principal, r metric.Right) (bool, error) {
	group, resource := r.Of()
	spec := authorization.SubjectAccessReviewSpec{
		User: who.User, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorization.ResourceAttributes{
			Verb: string(r.Verb), Group: group, Resource: resource, Namespace: r.Namespace,
		},
	}
	for key, values := range who.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorization.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	review, err := a.accessReviews.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorization.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the access of %q: %w", who.User, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
