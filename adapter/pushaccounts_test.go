package adapter

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const batch = "system:serviceaccount:shop:batch"

// namespacesSince are namespaces, by when they were created.
type namespacesSince map[string]time.Time

func (n namespacesSince) Namespace(name string) (uid string, created time.Time, known bool) {
	return name, n[name], true
}

// handed is when the name "shop" got another namespace.
var handed = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newAccounts(t *testing.T, plane *controlPlane) *Accounts {
	t.Helper()
	api := plane.rest()
	api.ContentType = "application/json" // the only encoding of this test's control plane
	a, err := NewAccounts(api, "sluice", namespacesSince{"shop": handed})
	must(t, err)
	return a
}

// Only a token for the audience is valid: the answer about an API server's token has no audience.
func TestTokensHaveToBeForUs(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens = map[string]string{"ours": batch, "bound": batch, "jane": "jane", "servers": batch}
	plane.meant = map[string][]string{"ours": {"sluice"}, "bound": {"vault", "sluice"}, "jane": {"sluice"}}
	plane.extra = map[string]map[string]authenticationv1.ExtraValue{
		batch: {podUIDExtra: {"uid-1"}, "authentication.kubernetes.io/pod-name": {"batch-1"}, credentialIDExtra: {"JTI=1"}},
	}
	a := newAccounts(t, plane)
	for token, want := range map[string]string{
		"ours": "", "bound": "", "jane": "",
		"servers": `the token is for the API server; must be for the audience "sluice"`,
		"guessed": `a token of this cluster for the audience "sluice"`,
	} {
		for _, known := range []bool{false, true} {
			who, why, err := a.Authenticate(t.Context(), token, known)
			if err != nil || (who == nil) != (want != "") || !strings.Contains(why, want) {
				t.Errorf("%s: %+v, %q, %v, want %q", token, who, why, err, want)
			}
		}
	}
	who, _, _ := a.Authenticate(t.Context(), "ours", false)
	if got := fmt.Sprint(*who); got != fmt.Sprint(metric.Principal{
		User: batch, Namespace: "shop", Name: "batch", PodUID: "uid-1",
		Extra: map[string][]string{podUIDExtra: {"uid-1"}, "authentication.kubernetes.io/pod-name": {"batch-1"}},
	}) {
		t.Error(got)
	}
	if who, _, _ = a.Authenticate(t.Context(), "jane", false); who.Namespace != "" || who.PodUID != "" {
		t.Errorf("%+v", who)
	}
}

// A token that the API server still takes for valid after the end of its namespace is not one of the next
// namespace of the name.
func TestTokensOfAFormerNamespace(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens, plane.meant = map[string]string{}, map[string][]string{}
	const elsewhere = "system:serviceaccount:bank:batch"
	token := func(user, claims string) string {
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
		plane.tokens[token], plane.meant[token] = user, []string{"sluice"}
		return token
	}
	at := func(after time.Duration) string { return fmt.Sprintf(`{"iat": %d}`, handed.Add(after).Unix()) }
	for token, former := range map[string]bool{
		token(batch, at(-time.Hour)):         true,
		token(batch, at(-3*time.Second)):     true,
		token(batch, at(-time.Second)):       false, // clocks differ
		token(batch, at(0)):                  false,
		token(batch, at(time.Hour)):          false,
		token(batch, `{"sub": "`+batch+`"}`): false, // of a Secret
		token(batch, `{"iat": "a day ago"}`): false,
		token(elsewhere, at(-2*time.Hour)):   false, // its namespace is not known yet
		token("jane", at(-3*time.Hour)):      false,
	} {
		who, why, err := newAccounts(t, plane).Authenticate(t.Context(), token, false)
		if err != nil || (who == nil) != former || former != strings.Contains(why, `the former one of that name`) {
			t.Errorf("%s: %+v, %q, %v; want it of a former namespace: %v", token, who, why, err, former)
		}
	}
}

func TestRightsAreTheAPIServersToGrant(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights[batch] = []string{"create sluice.dev/samples in bank", "get sluice.dev/samples in ",
		"get inspect.sluice.dev/series in mill"}
	a := newAccounts(t, plane)
	for right, want := range map[metric.Right]bool{
		{Verb: metric.Create, Namespace: "bank"}:            true,
		{Verb: metric.Create, Namespace: "shop"}:            false,
		{Verb: metric.Delete, Namespace: "bank"}:            false,
		{Verb: metric.Create}:                               false,
		{Verb: metric.Get}:                                  true,
		{Verb: metric.Get, Namespace: "bank", Series: true}: false,
		{Verb: metric.Get, Namespace: "mill", Series: true}: true,
		{Verb: metric.Get, Namespace: "mill"}:               true, // all series are more
		{Verb: metric.Create, Namespace: "mill"}:            false,
	} {
		if got, err := a.Authorize(t.Context(), &metric.Principal{User: batch}, right); got != want || err != nil {
			t.Errorf("%v: %v, %v", right, got, err)
		}
	}
	if !slices.Contains(plane.asked(), batch+": delete sluice.dev/samples in bank") {
		t.Errorf("asked %q", plane.asked())
	}
}

// An unavailable API server is an error and not a rejection.
func TestAccountsWithoutAPIServer(t *testing.T) {
	plane := newControlPlane(t)
	plane.tokens["ours"] = batch
	a := newAccounts(t, plane)
	plane.set(func() { plane.away = true })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if who, why, err := a.Authenticate(ctx, "ours", false); err == nil {
		t.Errorf("%v, %q", who, why)
	}
	if may, err := a.Authorize(ctx, &metric.Principal{User: batch}, metric.Right{Verb: metric.Create}); err == nil {
		t.Error(may)
	}
}
