package metric

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	long := strings.Repeat("x", 900_000)
	for _, c := range []struct {
		text, want string
		most       int
	}{
		{"", "", 0}, {"abc", "abc", 3}, {"abcd", "abc... (4 bytes)", 3}, {"aäb", "a... (4 bytes)", 2},
		{"\x80\x80\x80\x80\x80\x80", "\x80... (6 bytes)", 5}, {long, strings.Repeat("x", 10) + "... (900000 bytes)", 10},
	} {
		if got := Truncate(c.text, c.most); got != c.want {
			t.Errorf("Cut(%.10q, %d): %.100q, want %q", c.text, c.most, got, c.want)
		}
	}
	said := fmt.Sprintf("%q %s %v %d %s", TruncateArgs([]any{long, []byte(long), errors.New(long), 7, "short"})...)
	if len(said) > 4*MaxQuoted || strings.Count(said, "... (900000 bytes)") != 3 || !strings.HasSuffix(said, " 7 short") {
		t.Errorf("%d bytes: %.100s", len(said), said)
	}
	if err := NotFoundf("no series of %q", long); len(err.Error()) > 2*MaxQuoted || !errors.Is(err, ErrNotFound) {
		t.Errorf("%d bytes: %.100s", len(err.Error()), err)
	}
}
