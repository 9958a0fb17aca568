package binaries

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressCountsPackages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		p := &progress{name: "etcd", total: 3, report: func(text string) { reports = append(reports, text) }, begun: time.Now()}
		for _, text := range []string{"internal/abi\ngo.uber", ".org/zap\n", "# go.uber.org/zap\nzap.go:1:2: undefined: absent\n"} {
			time.Sleep(reportEvery)
			fmt.Fprint(p, text)
		}
		want := "etcd: compiled 1 of at most 3 packages in 15s, etcd: compiled 2 of at most 3 packages in 30s"
		if got := strings.Join(reports, ", "); got != want {
			t.Errorf("reports %q, want %q", got, want)
		}
		if got := p.rest.String(); !strings.HasPrefix(got, "# go.uber.org/zap\nzap.go:1:2") {
			t.Errorf("errors %q: want the compiler's", got)
		}
	})
}
