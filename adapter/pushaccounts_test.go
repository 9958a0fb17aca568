package adapter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/metric"
	authenticationv1 "k8s.io/api/authentication/v1"
)

const batch = "system:serviceaccount:shop:batch"

func newAccounts(t *testing.T, plane *controlPlane) *Accounts {
	t.Helper()
	api := plane.rest()
	api.ContentType = "application/json" // the only encoding of this test's control plane
	a, err := NewAccounts(api, "sluice")
	if err != nil {
		t.Fatal(err)
	}
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

func TestRightsAreTheAPIServersToGrant(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights[batch] = []string{"create sluice.dev/samples in bank", "get sluice.dev/samples in "}
	a := newAccounts(t, plane)
	for right, want := range map[metric.Right]bool{
		{Verb: metric.Create, Namespace: "bank"}: true,
		{Verb: metric.Create, Namespace: "shop"}: false,
		{Verb: metric.Delete, Namespace: "bank"}: false,
		{Verb: metric.Create}:                    false,
		{Verb: metric.Get}:                       true,
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
