package metric

import (
	"slices"
	"testing"
)

// A pod reads as its service account, by a token as by its address.
func TestReaderOfAPod(t *testing.T) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"} // as TokenReviews have them
	user := "system:serviceaccount:shop:till"
	for name, sender := range map[string]*Sender{
		"token":   {Principal: &Principal{User: user, Groups: groups}},
		"address": {Pod: &Pod{Namespace: "shop", Name: "till-1", ServiceAccount: "till"}},
	} {
		if got := sender.Reader(); got.User != user || !slices.Equal(got.Groups, groups) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := (*Sender)(nil).Reader(); got.User != "" || got.Groups != nil {
		t.Errorf("nobody: %+v", got)
	}
}
